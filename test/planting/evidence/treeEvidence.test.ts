import { z } from "zod";
import { updateAccount } from "../../../modules/accounts/accounts.sql.ts";
import { testWithDatabase } from "../../support/database.ts";
import { STAGE_MS } from "../../support/planting.ts";
import { eventsOf, createAndPlace, revalidate, startEvidenceApi } from "./evidenceApi.ts";
import type { Evidence } from "./evidenceApi.ts";
import { setUpPlanting } from "../setUpPlanting.ts";

const test = testWithDatabase();

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

const COMPLETE = {
  allocations: [
    "1 registered completed",
    "2 funds_distributed completed",
    "3 allocated completed",
    "4 planted completed",
  ],
  sessions: [
    "1 registered completed",
    "2 funds_distributed completed",
    "3 planted_and_verified completed",
  ],
};

test.serial("planted trees have four events, and five ids", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(2 * STAGE_MS);
  const { json, headers } = await read(`/evidence/tree/${id}`);
  t.is(json.status, "planted");
  t.deepEqual(eventsOf(json), COMPLETE.allocations);
  for (const { date, timestamp } of json.timeline ?? []) {
    t.is(date, String(timestamp).slice(0, 10));
  }
  t.deepEqual(Object.keys(json.provider_meta ?? {}), [
    "order_id",
    "public_id",
    "allocation_id",
    "field_update_id",
    "planting_session_id",
  ]);
  t.is(headers.get("Cache-Control"), "private, no-cache");
});

test.serial("trees planted in the same session show the same ids", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const ids = [await setup.register(3), await setup.register(4)];
  await createAndPlace(setup);
  await setup.pass(3 * STAGE_MS);
  const [one, other] = await Promise.all(
    ids.map(async (id) => (await read(`/evidence/tree/${id}`)).json.provider_meta),
  );
  t.deepEqual(one, other);
});

test.serial("a partner that reports sessions has three steps", async (t) => {
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
  t.deepEqual(eventsOf(json), COMPLETE.sessions);
});

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
});

test.serial(
  "a client with the current evidence gets a 304, at any spelling of its path",
  async (t) => {
    const { setup, read, url } = await startEvidenceApi(t);
    const id = await setup.register(3);
    const path = `/evidence/tree/${id}`;
    const { text, headers } = await read(path);
    const etag = headers.get("ETag") ?? "";
    t.not(etag, "");
    for (const spelling of [
      path,
      `${path}/`,
      `${path}?utm_source=x`,
      path.replace(id, id.toUpperCase()),
    ]) {
      t.like(await read(spelling, { headers: revalidate(etag) }), { status: 304, text: "" });
      t.is((await read(spelling)).text, text);
    }
    const Authorization = setup.organization.apiKeyProd;
    t.is((await fetch(url + path, { method: "HEAD", headers: { Authorization } })).status, 200);
    await createAndPlace(setup);
    t.is((await read(path, { headers: revalidate(etag) })).status, 200);
  },
);

test.serial("clients may cache evidence once the order is no longer polled", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(2 * STAGE_MS);
  const planted = await read(`/evidence/tree/${id}`);
  t.is(planted.headers.get("Cache-Control"), "private, no-cache");
  await setup.pass(STAGE_MS);
  const { json, headers } = await read(`/evidence/tree/${id}`);
  t.is(json.status, "planted_and_verified");
  t.is(headers.get("Cache-Control"), "private, max-age=2592000");
});

test.serial(
  "concurrent reads return each tree's own evidence, and nothing to others",
  async (t) => {
    const { setup, read } = await startEvidenceApi(t);
    const ids: string[] = [];
    for (const count of [1, 2, 3, 4, 5]) {
      ids.push(await setup.register(count));
    }
    await createAndPlace(setup);
    const reads = Array.from({ length: 40 }, async (_, index) => {
      const id = ids[index % ids.length] ?? "";
      const [own, inTest] = await Promise.all([
        read(`/evidence/tree/${id}`),
        read(`/evidence/tree/${id}`, { mode: "test" }),
      ]);
      const registered = z.object({ count: z.int() }).parse(evidenceOf(own.json, "registered"));
      return [registered.count === (index % ids.length) + 1, inTest.status];
    });
    for (const outcome of await Promise.all(reads)) {
      t.deepEqual(outcome, [true, 404]);
    }
  },
);

test.serial("evidence shows each refund at once, from every process", async (t) => {
  const { setup, serve } = await startEvidenceApi(t);
  const unorderedId = await setup.register(3);
  await setup.refund(unorderedId, 3);
  const id = await setup.register(3);
  await createAndPlace(setup);
  await setup.pass(3 * STAGE_MS);
  const processes = [await serve(), await serve()];
  const [unordered] = await Promise.all(
    processes.map(({ read }) => read(`/evidence/tree/${unorderedId}`)),
  );
  t.is(
    unordered?.json.timeline?.[0]?.["description"],
    "The trees were registered, and refunded in full before they were ordered.",
  );
  const readAll = () => processes.map(({ read }) => read(`/evidence/tree/${id}`));
  for (const refundedCount of [1, 2, 3]) {
    // Look-ups that are running must not serve later requests.
    const earlier = [...readAll(), ...readAll()];
    await setup.refund(id, 1);
    const later = await Promise.all(readAll());
    await Promise.all(earlier);
    for (const { json } of later) {
      t.is(json.refunded_count, refundedCount);
    }
  }
});

test.serial("URLs of paths on this service begin with its public base URL", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(Number.MAX_SAFE_INTEGER);
  await createAndPlace(setup);
  await setup.pass(3 * STAGE_MS);
  for (const path of [`/evidence/tree/${id}`, "/evidence"]) {
    const origins = (await read(path)).text.match(/https?:\/\/[a-z.]+/gu) ?? [];
    t.deepEqual([...new Set(origins)], ["https://impact.example"]);
  }
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

test.serial(
  "the dashboard URL is stable, and a missing key has another error than a wrong one",
  async (t) => {
    const { read, url, setup } = await startEvidenceApi(t, { name: "Möbel & Söhne <GmbH>" });
    const first = await read("/dashboard_url");
    const body = z.record(z.string(), z.string()).parse(JSON.parse(first.text));
    t.regex(
      body["dashboard_url"] ?? "",
      /^https:\/\/impact\.example\/dashboard\/mobel-sohne-gmbh-[a-z2-9]{8}$/u,
    );
    t.is(body["org_id"], setup.organization.id);
    await updateAccount(t.context.db, setup.organization.id, { name: "New name" });
    t.is((await read("/dashboard_url", { mode: "test" })).text, first.text);
    const missing = await fetch(`${url}/dashboard_url`);
    t.is(missing.status, 401);
    t.deepEqual(await missing.json(), { error: "missing Authorization header" });
    const wrong = await fetch(`${url}/dashboard_url`, { headers: { Authorization: "wrong" } });
    t.is(wrong.status, 403);
    t.deepEqual(await wrong.json(), { error: "invalid API key" });
    t.is((await fetch(`${url}/evidence`)).status, 403);
  },
);
