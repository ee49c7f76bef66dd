import test from "ava";
import { PLANTING_STAGES } from "../../../domain/planting/order.ts";
import type { TimelineShape } from "../../../domain/planting/order.ts";
import { buildTreeEvidence, isTimelineComplete } from "../../../domain/planting/timeline.ts";
import type { MilestoneEvent, TreeEvidence } from "../../../domain/planting/timeline.ts";
import { allFacts, allocation, factsOf, order, reach, REACHED } from "./evidenceFacts.ts";
import type { GivenFacts } from "./evidenceFacts.ts";

const build = (given: GivenFacts): TreeEvidence => buildTreeEvidence(factsOf(given));

const milestone = (given: GivenFacts, event: MilestoneEvent) =>
  build(given).timeline.find((candidate) => candidate.event === event);

const shows = test.macro({
  exec: (
    t,
    given: GivenFacts,
    status: MilestoneEvent,
    completed: readonly MilestoneEvent[],
    pending: readonly MilestoneEvent[],
  ) => {
    const { timeline, ...evidence } = build(given);
    t.is(evidence.status, status);
    const eventsOf = (isReached: boolean) =>
      timeline.flatMap(({ event, reached }) => ((reached !== null) === isReached ? [event] : []));
    t.deepEqual(eventsOf(true), completed);
    t.deepEqual(eventsOf(false), pending);
  },
  title: (title = "") => title,
});

const ALL = ["registered", "funds_distributed", "allocated", "planted"] as const;

test(
  "a registration without an order is registered",
  shows,
  {},
  "registered",
  ALL.slice(0, 1),
  ALL.slice(1),
);
test(
  "a registration in a created order is still registered",
  shows,
  { order },
  "registered",
  ALL.slice(0, 1),
  ALL.slice(1),
);
test(
  "funds are distributed",
  shows,
  { order, reached: reach("fundsDistributed") },
  "funds_distributed",
  ALL.slice(0, 2),
  ALL.slice(2),
);
test(
  "trees are allocated",
  shows,
  { order, reached: reach("fundsDistributed", "allocated") },
  "allocated",
  ALL.slice(0, 3),
  ALL.slice(3),
);
test(
  "trees are planted",
  shows,
  { order, reached: reach("fundsDistributed", "allocated", "planted") },
  "planted",
  ALL,
  [],
);
test(
  "a verification completes a timeline of allocations, even if planting was not reported",
  shows,
  { order, reached: reach("fundsDistributed", "allocated", "verified") },
  "planted_and_verified",
  ALL,
  [],
);
test(
  "a verification completes a timeline of sessions",
  shows,
  { order, shape: "sessions", reached: reach("fundsDistributed", "verified") },
  "planted_and_verified",
  ["registered", "funds_distributed", "planted_and_verified"],
  [],
);
test(
  "a timeline of sessions does not show allocation and planting",
  shows,
  { order, shape: "sessions", reached: reach("fundsDistributed", "allocated", "planted") },
  "planted",
  ["registered", "funds_distributed"],
  ["planted_and_verified"],
);
test(
  "distributed funds are not shown without their order",
  shows,
  { reached: reach("fundsDistributed") },
  "funds_distributed",
  ["registered"],
  ALL.slice(1),
);

test("no combination of stages shows an event twice", (t) => {
  for (const given of allFacts()) {
    const { timeline } = build(given);
    t.is(new Set(timeline.map(({ event }) => event)).size, timeline.length);
  }
});

const photo = (id: string, url: string) => ({
  id,
  type: "photo",
  url,
  thumbnailUrl: url,
  latitude: -1.5,
  longitude: 40.25,
});

test("a verification proves planting that was not reported, with numbered photos of its session", (t) => {
  const reached = reach("fundsDistributed", "allocated", "verified");
  t.deepEqual(milestone({ order, reached }, "planted")?.reached, {
    occurredAt: new Date("2026-05-04T00:00:00.000Z"),
    evidence: {
      plantedAt: "2026-05-04T12:00:00.000Z",
      fieldUpdateId: 91,
      plantingSessionId: 92,
      media: [photo("92-1", "/evidence/1.svg"), photo("92-2", "https://partner.example/2.jpg")],
    },
  });
});

test("reported planting is shown as reported, verified or not", (t) => {
  const stages = ["fundsDistributed", "allocated", "planted"] as const;
  t.deepEqual(milestone({ order, reached: reach(...stages) }, "planted")?.reached, REACHED.planted);
  t.deepEqual(
    milestone({ order, reached: reach(...stages, "verified") }, "planted")?.reached,
    REACHED.planted,
  );
});

test("a full refund is told from a partial one, and one before the order from a later one", (t) => {
  t.is(build({ refundedCount: 5 }).fullRefund, "beforeOrder");
  t.is(build({ refundedCount: 5, order }).fullRefund, "afterOrder");
  t.is(build({ refundedCount: 4, order }).fullRefund, null);
  t.is(build({}).fullRefund, null);
});

const showsIds = test.macro({
  exec: (
    t,
    given: GivenFacts,
    allocationId: number | null,
    session: { fieldUpdateId: number; plantingSessionId: number } | null,
  ) => {
    const evidence = build(given);
    t.is(evidence.allocationId, allocationId);
    t.is(evidence.session?.fieldUpdateId, session?.fieldUpdateId);
    t.is(evidence.session?.plantingSessionId, session?.plantingSessionId);
  },
  title: (title = "") => `reference ids: ${title}`,
});

const session = { fieldUpdateId: 91, plantingSessionId: 92 };

test("none before the trees are allocated", showsIds, { order }, null, null);
test(
  "the first allocation",
  showsIds,
  { order, reached: reach("fundsDistributed", "allocated") },
  11,
  null,
);
test(
  "the planted session",
  showsIds,
  { order, reached: reach("fundsDistributed", "allocated", "planted") },
  11,
  { fieldUpdateId: 81, plantingSessionId: 82 },
);
test(
  "the verified session before the planted one",
  showsIds,
  { order, reached: reach("fundsDistributed", "allocated", "planted", "verified") },
  11,
  session,
);
test(
  "the session and its own allocation, if none was reported",
  showsIds,
  { order, reached: reach("fundsDistributed", "verified") },
  90,
  session,
);
test(
  "the reported allocation before the session's",
  showsIds,
  { order, reached: reach("fundsDistributed", "allocated", "verified") },
  11,
  session,
);
test(
  "an allocation with id 0",
  showsIds,
  {
    order,
    reached: {
      ...reach("verified"),
      allocated: {
        ...REACHED.allocated,
        evidence: { allocations: [allocation(0, ""), allocation(1, "")] },
      },
    },
  },
  0,
  session,
);

const complete = (shape: TimelineShape) =>
  (["created", ...PLANTING_STAGES] as const).filter((stage) => isTimelineComplete(shape, stage));

test("a timeline is complete when verified, and with allocations already when planted", (t) => {
  t.deepEqual(complete("allocations"), ["planted", "planted_and_verified"]);
  t.deepEqual(complete("sessions"), ["planted_and_verified"]);
});
