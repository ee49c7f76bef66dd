import { checksOf, dayOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Service, StoreKey } from "../../client.ts";
import { expect } from "../../expectations.ts";
import { storeEvidence } from "../shapes.ts";
import { expectStage, expectTimeline, STAGES } from "../standalone/evidence.ts";
import { storeRecordsOf } from "./storeRecords.ts";

type Query = Readonly<Record<string, string>>;

const PATH = "/app/api/evidence";
const evidenceScene = (service: Service) => {
  const { write, findRecord } = storeRecordsOf("tree")(service);
  return {
    get: (query: Query, key: StoreKey = "test") => service.store(key).get(PATH, query),
    read: async (query: Query) =>
      expect.body(await service.store().get(PATH, query), storeEvidence),
    plant: async (key: StoreKey = "test") => {
      const customer = { customer_name: unique("evidence") };
      await write({ trees: 12, ...customer }, key);
      return findRecord(customer, key);
    },
  };
};

const { contract } = checksOf(`GET ${PATH}`, evidenceScene);

export const storeEvidenceChecks: readonly Check[] = [
  contract("tree_id, id and tree select a tree", async (t) => {
    const record = await t.plant();
    for (const name of ["tree_id", "id", "tree"]) {
      const body = await t.read({ [name]: record.id });
      expect.fields(body, { tree_id: record.id, record_id: record.id });
      expectTimeline(body.timeline, false);
      expect.equal("first event", body.timeline[0]?.status, "completed");
      expect.equal("created_at", Date.parse(body.created_at), Date.parse(record.created_at));
    }
  }),
  ...STAGES.map((stage) =>
    contract(`evidence_stage=${stage} simulates that stage`, async (t) => {
      const { id } = await t.plant();
      const body = await t.read({ tree_id: id, evidence_stage: stage });
      expectTimeline(body.timeline, false);
      expectStage(body.timeline, stage);
    }),
  ),
  contract("another evidence_stage is a 400", async (t) => {
    const { id } = await t.plant();
    for (const stage of ["allocated", "x", "PLANTED"]) {
      expect.status(await t.get({ tree_id: id, evidence_stage: stage }), 400);
    }
  }),
  contract("evidence_stage is refused with a production key", async (t) => {
    const answer = await t.get({ evidence_stage: "planted" }, "prod");
    expect.that(answer.status >= 400 && answer.status < 500, "the status is a 4xx", answer.status);
  }),
  contract("an unknown tree or another store's is a 404", async (t) => {
    const foreign = await t.plant("otherTest");
    for (const id of [crypto.randomUUID(), "unknown", foreign.id]) {
      expect.status(await t.get({ tree_id: id }), 404);
    }
  }),
  contract("impact_type is trees, also by default", async (t) => {
    const { id } = await t.plant();
    for (const given of [{}, { impact_type: "trees" }]) {
      expect.fields(await t.read({ tree_id: id, ...given }), { impact_type: "trees" });
    }
  }),
  contract("created_at and tree_date select a tree of that day", async (t) => {
    const record = await t.plant();
    const day = dayOf(record.created_at);
    for (const name of ["created_at", "tree_date"]) {
      const body = await t.read({ [name]: day });
      expect.equal("day", dayOf(body.created_at), day);
    }
  }),
  contract("without parameters it shows a tree of the store", async (t) => {
    await t.plant();
    await t.read({});
  }),
];
