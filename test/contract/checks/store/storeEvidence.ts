import { checksOf, dayOf, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import type { Service, StoreKey } from "../../client.ts";
import {
  expectBody,
  expectEqual,
  expectFields,
  expectStatus,
  expectThat,
} from "../../expectations.ts";
import { storeEvidence } from "../shapes.ts";
import { expectStage, expectTimeline, STAGES } from "../standalone/evidence.ts";
import { findRecord, write } from "./storeRecords.ts";
import type { StoreRecord } from "./storeRecords.ts";

const PATH = "/app/api/evidence";
const { contract } = checksOf(`GET ${PATH}`);

const read = async (
  service: Service,
  parameters: Readonly<Record<string, string>>,
  key: StoreKey = "test",
) =>
  expectBody(
    await service.store(key).get(`${PATH}?${new URLSearchParams(parameters).toString()}`),
    storeEvidence,
  );

const plant = async (service: Service, key: StoreKey = "test"): Promise<StoreRecord> => {
  const customer = unique("evidence");
  await write(service, "tree", { trees: 12, customer_name: customer }, key);
  return findRecord(service, "tree", { customer_name: customer }, key);
};

export const storeEvidenceChecks: readonly Check[] = [
  contract("tree_id, id and tree select a tree", async (service) => {
    const record = await plant(service);
    for (const name of ["tree_id", "id", "tree"]) {
      const body = await read(service, { [name]: record.id });
      expectFields(body, { tree_id: record.id, record_id: record.id });
      expectTimeline(body.timeline, false);
      expectEqual("first event", body.timeline[0]?.status, "completed");
      expectEqual("created_at", Date.parse(body.created_at), Date.parse(record.created_at));
    }
  }),
  ...STAGES.map((stage) =>
    contract(`evidence_stage=${stage} simulates that stage`, async (service) => {
      const { id } = await plant(service);
      const body = await read(service, { tree_id: id, evidence_stage: stage });
      expectTimeline(body.timeline, false);
      expectStage(body.timeline, stage);
    }),
  ),
  contract("another evidence_stage is a 400", async (service) => {
    const { id } = await plant(service);
    for (const stage of ["allocated", "x", "PLANTED"]) {
      expectStatus(await service.store().get(`${PATH}?tree_id=${id}&evidence_stage=${stage}`), 400);
    }
  }),
  contract("evidence_stage is refused with a production key", async (service) => {
    const answer = await service.store("prod").get(`${PATH}?evidence_stage=planted`);
    expectThat(answer.status >= 400 && answer.status < 500, "the status is a 4xx", answer.status);
  }),
  contract("an unknown tree or another store's is a 404", async (service) => {
    const foreign = await plant(service, "otherTest");
    for (const id of [crypto.randomUUID(), "unknown", foreign.id]) {
      expectStatus(await service.store().get(`${PATH}?tree_id=${encodeURIComponent(id)}`), 404);
    }
  }),
  contract("impact_type is trees, also by default", async (service) => {
    const { id } = await plant(service);
    for (const given of [{}, { impact_type: "trees" }]) {
      expectFields(await read(service, { tree_id: id, ...given }), { impact_type: "trees" });
    }
  }),
  contract("created_at and tree_date select a tree of that day", async (service) => {
    const record = await plant(service);
    const day = dayOf(record.created_at);
    for (const name of ["created_at", "tree_date"]) {
      const body = await read(service, { [name]: day });
      expectEqual("day", dayOf(body.created_at), day);
    }
  }),
  contract("without parameters it shows a tree of the store", async (service) => {
    await plant(service);
    await read(service, {});
  }),
];
