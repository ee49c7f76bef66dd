import { z } from "zod";
import { testWithDatabase } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { eventsOf, createAndPlace, revalidate, startEvidenceApi } from "./evidenceApi.ts";
import type { Evidence } from "./evidenceApi.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

const typesOf = (value: unknown): unknown => {
  if (Array.isArray(value)) {
    return value.slice(0, 1).map(typesOf);
  }
  if (typeof value === "object" && value !== null) {
    return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, typesOf(inner)]));
  }
  return Number.isInteger(value) ? "integer" : typeof value;
};

const evidenceOf = ({ timeline = [] }: Evidence, event: string): unknown =>
  timeline.find((milestone) => milestone.event === event)?.evidence;

test.serial(
  "a new registration is registered; later milestones are pending, without dates or evidence",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t);
    const id = await setup.register(3);
    const { status, json, headers } = await read(`/evidence/tree/${id}`);
    t.is(status, 200);
    t.is(json.status, "registered");
    t.is(json.impact_provider, "North Coast Planting");
    t.true(json.simulated);
    t.is(headers.get("Evidence-Simulated"), "true");
    t.deepEqual(json.provider_meta, {});
    t.deepEqual(eventsOf(json), [
      "1 registered completed",
      "2 funds_distributed pending",
      "3 allocated pending",
      "4 planted pending",
    ]);
    for (const milestone of json.timeline?.slice(1) ?? []) {
      t.deepEqual(Object.keys(milestone), ["step", "event", "title", "status", "description"]);
    }
    t.deepEqual(evidenceOf(json, "registered"), {
      tree_id: id,
      record_id: id,
      registered_at: "2026-05-01T10:00:00.000Z",
      count: 3,
      fractional_count: 0.5,
      attribution: "spring",
    });
    t.is(headers.get("Cache-Control"), "private, no-cache");
  },
);

test.serial("planted trees have four events, with every field of its type", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(2 * STAGE_MS);
  const { json, headers } = await read(`/evidence/tree/${id}`);
  t.is(json.status, "planted");
  t.deepEqual(eventsOf(json), [
    "1 registered completed",
    "2 funds_distributed completed",
    "3 allocated completed",
    "4 planted completed",
  ]);
  t.deepEqual(typesOf(evidenceOf(json, "funds_distributed")), {
    partner: "string",
    order_id: "integer",
    order_public_id: "string",
    tree_order_id: "integer",
    tree_order_public_id: "string",
    tree_amount: "integer",
    buyer_name: "string",
  });
  t.deepEqual(typesOf(evidenceOf(json, "allocated")), {
    partner: "string",
    allocations: [
      {
        allocation_id: "integer",
        date_allocated: "string",
        planting_site: {
          id: "integer",
          name: "string",
          subsite_name: "string",
          organization_name: "string",
          latitude: "number",
          longitude: "number",
          main_image: "string",
        },
        crew: {
          leader: "string",
          style: "string",
          total_members: "integer",
          women_members: "integer",
        },
      },
    ],
  });
  t.deepEqual(typesOf(evidenceOf(json, "planted")), {
    partner: "string",
    date_planted: "string",
    media: [
      {
        id: "string",
        type: "string",
        url: "string",
        thumbnail_url: "string",
        latitude: "number",
        longitude: "number",
      },
    ],
  });
  for (const { date, timestamp } of json.timeline ?? []) {
    t.is(date, String(timestamp).slice(0, 10));
  }
  t.deepEqual(typesOf(json.provider_meta), {
    order_id: "integer",
    public_id: "string",
    allocation_id: "integer",
    field_update_id: "integer",
    planting_session_id: "integer",
  });
  t.is(headers.get("Cache-Control"), "private, no-cache");
});

test.serial("simulated evidence shows the same reference ids at every stage", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  const numbersAt = async (stage: string) => {
    const { json } = await read(`/evidence/tree/${id}?evidence_stage=${stage}`);
    const funds = z
      .looseObject({ order_id: z.int(), tree_order_id: z.int() })
      .parse(evidenceOf(json, "funds_distributed"));
    return { ...json.provider_meta, ...funds };
  };
  const planted = await numbersAt("planted");
  const verified = await numbersAt("planted_and_verified");
  t.like(verified, planted);
  t.like(verified, await numbersAt("funds_distributed"));
  const numbers = Object.values(verified).filter((value) => typeof value === "number");
  t.is(new Set(numbers).size, numbers.length);
});

test.serial(
  "a partner that reports sessions has three steps, with coordinates as strings",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t, { timeline: "sessions" });
    const id = await setup.register(3);
    await createAndPlace(setup);
    t.deepEqual(eventsOf((await read(`/evidence/tree/${id}`)).json), [
      "1 registered completed",
      "2 funds_distributed completed",
      "3 planted_and_verified pending",
    ]);
    await setup.pass(3 * STAGE_MS);
    const { json } = await read(`/evidence/tree/${id}`);
    t.is(json.status, "planted_and_verified");
    t.deepEqual(typesOf(evidenceOf(json, "planted_and_verified")), {
      partner: "string",
      planting_site_name: "string",
      subsite_name: "string",
      organization_name: "string",
      assessor_name: "string",
      verifier: "string",
      date_verified: "string",
      session_total_planted: "integer",
      species: ["string"],
      image_url: "string",
      allocation_id: "integer",
      field_update_id: "integer",
      planting_session_id: "integer",
      latitude: "string",
      longitude: "string",
      photos: ["string"],
    });
    t.deepEqual(typesOf(json.provider_meta), {
      order_id: "integer",
      public_id: "string",
      allocation_id: "integer",
      field_update_id: "integer",
      planting_session_id: "integer",
    });
  },
);

test.serial("the simulated photos in the evidence can be fetched", async (t) => {
  const { setup, read, url } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(2 * STAGE_MS);
  const { text } = await read(`/evidence/tree/${id}`);
  const paths = [...text.matchAll(/https:\/\/impact\.example(\/[^"]+)/gu)].map(([, path]) => path);
  t.true(paths.length >= 5);
  for (const path of paths) {
    const response = await fetch(`${url}${path ?? ""}`);
    t.is(response.status, 200);
    t.is(response.headers.get("Content-Type"), "image/svg+xml");
    t.true((await response.text()).startsWith("<svg"));
  }
});

test.serial("all processes return the same bytes until a milestone is reached", async (t) => {
  const { setup, read, serve } = await startEvidenceApi(t);
  const other = await serve();
  const id = await setup.register(3);
  const path = `/evidence/tree/${id}`;
  const first = await read(path);
  const repeat = await other.read(path);
  t.is(repeat.text, first.text);
  t.is(repeat.headers.get("ETag"), first.headers.get("ETag"));
  await createAndPlace(setup);
  t.is((await other.read(path)).json.status, "funds_distributed");
  await setup.pass(3 * STAGE_MS);
  const verified = await read(path);
  t.is(verified.json.status, "planted_and_verified");
  setup.clock.set("2026-05-20T10:00:00.000Z");
  const later = await other.read(path);
  t.is(later.text, verified.text);
  t.is(later.headers.get("Age"), "1641420");
});

test.serial("a client with the current evidence gets a 304 without a body", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  const path = `/evidence/tree/${id}`;
  const etag = (await read(path)).headers.get("ETag") ?? "";
  t.not(etag, "");
  const repeat = await read(path, { headers: revalidate(etag) });
  t.is(repeat.status, 304);
  t.is(repeat.text, "");
  await createAndPlace(setup);
  t.is((await read(path, { headers: revalidate(etag) })).status, 200);
});

test.serial("trees of other accounts or modes, bottles and bad ids are not found", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const other = await setUpPlanting(t.context.db);
  const ids = [
    await other.register(1),
    await setup.register(1, { mode: "test" }),
    await setup.register(1, { kind: "bottle" }),
    crypto.randomUUID(),
    "nonsense",
    "%00",
    "%E0%A4%A",
  ];
  for (const id of ids) {
    const { status, json } = await read(`/evidence/tree/${id}`);
    t.is(status, 404, id);
    t.deepEqual(json, { error: "failed to find tree" });
  }
});

const SIMULATED = {
  registered: [
    "1 registered completed",
    "2 funds_distributed pending",
    "3 allocated pending",
    "4 planted pending",
  ],
  funds_distributed: [
    "1 registered completed",
    "2 funds_distributed completed",
    "3 allocated pending",
    "4 planted pending",
  ],
  planted: [
    "1 registered completed",
    "2 funds_distributed completed",
    "3 allocated completed",
    "4 planted completed",
  ],
  planted_and_verified: [
    "1 registered completed",
    "2 funds_distributed completed",
    "3 planted_and_verified completed",
  ],
};

for (const [stage, events] of Object.entries(SIMULATED)) {
  test.serial(
    `evidence_stage=${stage} is simulated, marked, repeatable and does not change the real evidence`,
    async (t) => {
      const { setup, read } = await startEvidenceApi(t);
      const id = await setup.register(3, { mode: "test" });
      const path = `/evidence/tree/${id}`;
      const real = await read(path, { mode: "test" });
      const simulated = await read(`${path}?evidence_stage=${stage}`, { mode: "test" });
      t.is(simulated.json.status, stage);
      t.true(simulated.json.simulated);
      for (const { timestamp } of simulated.json.timeline ?? []) {
        t.true(timestamp === undefined || timestamp === "2026-05-01T10:00:00.000Z");
      }
      t.deepEqual(eventsOf(simulated.json), events);
      t.is(simulated.headers.get("Evidence-Simulated"), "true");
      t.is(simulated.headers.get("Cache-Control"), "no-store");
      t.is((await read(`${path}?evidence_stage=${stage}`, { mode: "test" })).text, simulated.text);
      const after = await read(path, { mode: "test" });
      t.is(after.text, real.text);
    },
  );
}

test.serial("an unknown evidence_stage is rejected with the accepted ones", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  for (const stage of ["allocated", "Planted"]) {
    const { status, json } = await read(`/evidence/tree/${id}?evidence_stage=${stage}`);
    t.is(status, 400);
    t.is(
      json.error,
      "evidence_stage: must be one of registered, funds_distributed, planted, planted_and_verified",
    );
  }
});

test.serial("a test key's trees are simulated with every partner", async (t) => {
  const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
  const id = await setup.register(7, { mode: "test" });
  const path = `/evidence/tree/${id}`;
  t.true((await read(path, { mode: "test" })).json.simulated);
  await createAndPlace(setup);
  const { json, headers } = await read(path, { mode: "test" });
  t.is(json.status, "funds_distributed");
  t.true(json.simulated);
  t.is(headers.get("Evidence-Simulated"), "true");
});

test.serial(
  "evidence_stage works with a live key, and says in the body that it is simulated",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t, { partner: "manual" });
    const id = await setup.register(7);
    const { status, json, headers } = await read(`/evidence/tree/${id}?evidence_stage=planted`);
    t.is(status, 200);
    t.true(json.simulated);
    t.is(headers.get("Evidence-Simulated"), "true");
    t.is(Object.keys(json.provider_meta ?? {}).length, 5);
  },
);
