import test from "ava";
import { PLANTING_STAGES } from "../../../modules/planting/order.rules.ts";
import type { TimelineShape } from "../../../runtime/config/partnerKinds.rules.ts";
import { buildTreeEvidence, isTimelineComplete } from "../../../modules/planting/timeline.rules.ts";
import type { MilestoneEvent, TreeEvidence } from "../../../modules/planting/timeline.rules.ts";
import { allFacts, allocation, factsOf, order, reach, REACHED } from "./evidenceFacts.ts";
import type { GivenFacts } from "./evidenceFacts.ts";
import {
  evidenceSummary,
  renderEvidenceSummary,
} from "../../../api/endpoints/presentEvidenceSummary.ts";
import {
  factorFor,
  IMPACT_FACTORS,
  projectGenericCo2Kg,
  projectImpact,
} from "../../../modules/planting/impactFactors.rules.ts";

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

const idOf = (region: string): string | undefined =>
  evidenceSummary.parse(
    JSON.parse(
      renderEvidenceSummary(
        {
          registeredTrees: 1,
          plantedTrees: 1,
          isSimulated: false,
          projected: { carbonTons: 0, areaHectares: 0 },
          regions: [{ region, country: "A", media: [] }],
        },
        "https://impact.example",
      ),
    ),
  ).regions[0]?.id;

test("the id of a region keeps the vowel signs and accents of its letters", (t) => {
  t.is(idOf("केरल"), "a-केरल");
  t.is(idOf("กำแพงเพชร"), "a-กำแพงเพชร");
  t.is(idOf("São Tomé (North)"), "a-são-tomé-north-");
});

test("a region has one id, whether its accents are combining characters or not", (t) => {
  t.is(idOf("São Tomé".normalize("NFD")), idOf("São Tomé".normalize("NFC")));
});

const now = new Date("2026-05-01T00:00:00Z");

test("each type of forest has a factor for every time since 1970", (t) => {
  for (const at of [new Date(0), now]) {
    t.is(factorFor("mangrove", at).id, "mangrove-1");
    t.is(factorFor("terrestrial", at).id, "terrestrial-1");
  }
  t.throws(() => factorFor("mangrove", new Date(-1)), { instanceOf: RangeError });
});

test("factors have unique ids, and those of one type are sorted by time", (t) => {
  t.is(new Set(IMPACT_FACTORS.map(({ id }) => id)).size, IMPACT_FACTORS.length);
  for (const kind of ["mangrove", "terrestrial"] as const) {
    const starts = IMPACT_FACTORS.filter(({ forestType }) => forestType === kind).map(
      ({ effectiveFrom }) => effectiveFrom.getTime(),
    );
    t.deepEqual(
      starts,
      starts.toSorted((a, b) => a - b),
    );
  }
});

test("tons and hectares are summed over the factors and rounded to three decimals", (t) => {
  t.deepEqual(projectImpact([]), { carbonTons: 0, areaHectares: 0 });
  t.deepEqual(projectImpact([{ factorId: "mangrove-1", trees: 10_000 }]), {
    carbonTons: 3080,
    areaHectares: 1,
  });
  t.deepEqual(
    projectImpact([
      { factorId: "mangrove-1", trees: 1 },
      { factorId: "terrestrial-1", trees: 1 },
      { factorId: "terrestrial-1", trees: 555 },
    ]),
    { carbonTons: 111.508, areaHectares: 0.5 },
  );
  t.throws(() => projectImpact([{ factorId: "mangrove-0", trees: 1 }]), { instanceOf: RangeError });
});

test("trees without a known site count as terrestrial", (t) => {
  t.is(projectGenericCo2Kg(3, now), 600);
});
