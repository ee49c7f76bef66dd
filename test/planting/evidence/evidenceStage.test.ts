import { z } from "zod";
import { testWithDatabase } from "../../support/database.ts";
import { createAndPlace, eventsOf, startEvidenceApi } from "./evidenceApi.ts";

const test = testWithDatabase();

test.serial("simulated evidence shows the same reference ids at every stage", async (t) => {
  const { setup, read } = await startEvidenceApi(t);
  const id = await setup.register(3);
  const numbersAt = async (stage: string) => {
    const { json } = await read(`/evidence/tree/${id}?evidence_stage=${stage}`);
    const { evidence } = json.timeline?.find(({ event }) => event === "funds_distributed") ?? {};
    const funds = z.looseObject({ order_id: z.int(), tree_order_id: z.int() }).parse(evidence);
    return { ...json.provider_meta, ...funds };
  };
  const planted = await numbersAt("planted");
  const verified = await numbersAt("planted_and_verified");
  t.like(verified, planted);
  t.like(verified, await numbersAt("funds_distributed"));
  const numbers = Object.values(verified).filter((value) => typeof value === "number");
  t.is(new Set(numbers).size, numbers.length);
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
