import { z } from "zod";
import { atOnce, checksOf, countStatuses, unique } from "../../check.ts";
import type { Check } from "../../check.ts";
import { Difference } from "../../client.ts";
import type { Service, StandaloneKey } from "../../client.ts";
import { expect, queriesOf, rejects } from "../../expectations.ts";
import { EVIDENCE_SHAPES, evidenceSummary, registeredEvidence, treeEvidence } from "../shapes.ts";
import type { Milestone } from "../shapes.ts";
import { registrationsOf } from "./registrations.ts";

export const STAGES = [
  "registered",
  "funds_distributed",
  "planted",
  "planted_and_verified",
] as const;

const TIMELINES = [
  ["registered", "funds_distributed", "planted_and_verified"],
  ["registered", "funds_distributed", "allocated", "planted"],
];

const readEvidence = <Schema extends z.ZodType>(
  milestone: Milestone | undefined,
  schema: Schema,
): z.output<Schema> => {
  const result = schema.safeParse(milestone?.evidence);
  if (!result.success) {
    const reason = z.prettifyError(result.error).replaceAll("\n", " ");
    throw new Difference(`evidence of the milestone ${milestone?.event ?? "none"}: ${reason}`);
  }
  return result.data;
};

/** Expects one of the contract's two timelines, whose completed milestones come first and have their evidence. */
export const expectTimeline = (timeline: readonly Milestone[], withEvidence: boolean): void => {
  const events = timeline.map(({ event }) => event);
  const isKnown = TIMELINES.some((shape) => JSON.stringify(shape) === JSON.stringify(events));
  expect.that(isKnown, "the events must be those of one of the contract's two timelines", events);
  expect.equal(
    "steps",
    timeline.map(({ step }) => step),
    events.map((_, index) => index + 1),
  );
  let isPending = false;
  for (const milestone of timeline) {
    if (milestone.status === "pending") {
      isPending = true;
      for (const field of ["date", "timestamp", "evidence"] as const) {
        expect.that(!(field in milestone), `a pending milestone omits ${field}`, milestone);
      }
      continue;
    }
    expect.that(!isPending, "no completed milestone follows a pending one", events);
    expect.that(milestone.date !== undefined, "a completed milestone carries date", milestone);
    const { timestamp } = milestone;
    expect.that(timestamp !== undefined, "a completed milestone carries timestamp", milestone);
    if (withEvidence) {
      readEvidence(milestone, EVIDENCE_SHAPES[milestone.event] ?? z.never());
    }
  }
};

/** Expects a timeline to be completed up to a stage, and no further. */
export const expectStage = (timeline: readonly Milestone[], stage: string): void => {
  const completed = timeline.filter(({ status }) => status === "completed");
  // The last milestone of four is completed by a verification, too.
  const last = completed.at(-1)?.event;
  const isReached = last === stage || (stage === "planted_and_verified" && last === "planted");
  const events = completed.map(({ event }) => event);
  expect.that(isReached, `the timeline must be completed up to ${stage}`, events);
};

const evidenceScene = (service: Service) => ({
  ...registrationsOf("tree")(service),
  readSummary: (key: StandaloneKey = "test", headers = {}) =>
    service.organization(key).get("/evidence", {}, headers),
  readTree: (id: string, query = "") => service.organization().get(`/evidence/tree/${id}${query}`),
});

const summary = checksOf("GET /evidence", evidenceScene);
const tree = checksOf("GET /evidence/tree/{id}", evidenceScene);

const NOT_FOUND = "failed to find tree";

export const evidenceChecks: readonly Check[] = [
  summary.contract("returns the summary with the contract's fields", async (t) => {
    expect.body(await t.readSummary(), evidenceSummary);
  }),
  summary.contract("repeated calls return identical content, whatever is registered", async (t) => {
    const first = await t.readSummary();
    await t.register({ count: 1000 });
    const second = await t.readSummary();
    expect.equal("second response", second.text, first.text);
  }),
  summary.contract("the data are those of all organizations", async (t) => {
    const first = await t.readSummary();
    const other = await t.readSummary("otherTest");
    expect.equal("response to another organization", other.text, first.text);
  }),
  summary.decision("If-None-Match gets a 304, also with Cache-Control: no-cache", async (t) => {
    const etag = (await t.readSummary()).headers.get("etag");
    expect.that(etag !== null, "the response has an ETag", etag);
    const headers = { "If-None-Match": etag ?? "", "Cache-Control": "no-cache" };
    expect.status(await t.readSummary("test", headers), 304);
  }),
  tree.contract("a new tree has a timeline whose first milestone is completed", async (t) => {
    const { record } = await t.register({ count: 12, attribution: unique("evidence") });
    const answer = await t.readTree(record.id);
    const body = expect.body(answer, treeEvidence);
    const ids = { tree_id: record.id, record_id: record.id };
    expect.fields(body, ids);
    expectTimeline(body.timeline, true);
    const registered = readEvidence(body.timeline[0], registeredEvidence);
    const { count, attribution, fractional_count } = record;
    expect.fields(registered, { ...ids, count, attribution, fractional_count });
    const times = [registered.registered_at, record.created_at].map((time) => Date.parse(time));
    expect.equal("evidence.registered_at", times[0], times[1]);
  }),
  ...STAGES.map((stage) =>
    tree.contract(`evidence_stage=${stage} simulates that stage`, async (t) => {
      const { record } = await t.register({ count: 12 });
      const answer = await t.readTree(record.id, `?evidence_stage=${stage}`);
      const body = expect.body(answer, treeEvidence);
      expect.fields(body, { tree_id: record.id, record_id: record.id });
      expectTimeline(body.timeline, true);
      expectStage(body.timeline, stage);
    }),
  ),
  tree.contract("100 overlapping requests are all answered", async (t) => {
    const { record } = await t.register({ count: 1 });
    const answers = await atOnce(100, () => t.readTree(record.id));
    expect.equal("statuses", countStatuses(answers), { 200: 100 });
  }),
  tree.contract("another evidence_stage is a 400", async (t) => {
    const { record } = await t.register({ count: 1 });
    const others = ["allocated", "pending", "PLANTED", "planted,registered", "1"];
    const queries = queriesOf(["evidence_stage"], others);
    await rejects(`/evidence/tree/${record.id}`, { queries })(t);
  }),
  tree.contract("an unknown tree is a 404 with its message", async (t) => {
    for (const id of [crypto.randomUUID(), "unknown", "1", "%20", "a%2Fb", "x".repeat(300)]) {
      expect.error(await t.readTree(id), 404, NOT_FOUND);
    }
  }),
  tree.contract("another organization's tree is a 404", async (t) => {
    const { record } = await t.register({ count: 1 }, "otherTest");
    for (const query of ["", "?evidence_stage=planted"]) {
      const answer = await t.readTree(record.id, query);
      expect.error(answer, 404, NOT_FOUND);
    }
  }),
  tree.contract("a bottle is a 404", async (t) => {
    const { record } = await registrationsOf("bottle")(t.service).register({ count: 1 });
    expect.error(await t.readTree(record.id), 404, NOT_FOUND);
  }),
  tree.decision("the status of a simulation is its stage", async (t) => {
    const { record } = await t.register({ count: 1 });
    for (const stage of STAGES) {
      const answer = await t.readTree(record.id, `?evidence_stage=${stage}`);
      expect.equal("status", expect.body(answer, treeEvidence).status, stage);
    }
  }),
];
