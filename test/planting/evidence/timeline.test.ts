import test from "ava";
import { absoluteUrl, presentTreeEvidence } from "../../../api/endpoints/presentTreeEvidence.ts";
import type { PresentedTreeEvidence } from "../../../api/endpoints/treeEvidenceSchema.ts";
import { treeEvidence } from "../../../api/endpoints/treeEvidenceSchema.ts";
import type { AcceptedFacts } from "../../../modules/planting/fact.rules.ts";
import { PLANTING_STAGES } from "../../../modules/planting/order.rules.ts";
import { isTimelineComplete } from "../../../modules/planting/timeline.rules.ts";
import type { MilestoneEvent } from "../../../modules/planting/timeline.rules.ts";
import { allFacts, allocation, FACTS, factsOf, ID, order, reach } from "./evidenceFacts.ts";
import type { GivenFacts } from "./evidenceFacts.ts";
import { presentEvidenceSummary } from "../../../api/endpoints/presentEvidenceSummary.ts";
import {
  factorFor,
  projectGenericCo2Kg,
  projectImpact,
} from "../../../modules/planting/impactFactors.rules.ts";

const BASE_URL = "https://impact.example";

const present = (given: GivenFacts): PresentedTreeEvidence =>
  presentTreeEvidence(factsOf(given), BASE_URL);

const milestone = (given: GivenFacts, event: MilestoneEvent) =>
  present(given).timeline.find((candidate) => candidate.event === event);

const ALL = ["registered", "funds_distributed", "allocated", "planted"] as const;

const FUNDED = reach("funds_distributed");
const ALLOCATED = reach("funds_distributed", "allocated");
const REPORTED = reach("funds_distributed", "allocated", "planted");

for (const [title, given, status, completed] of [
  ["a registration without an order is registered", {}, "registered", 1],
  ["a registration in a created order is still registered", { order }, "registered", 1],
  ["funds are distributed", { order, facts: FUNDED }, "funds_distributed", 2],
  ["trees are allocated", { order, facts: ALLOCATED }, "allocated", 3],
  ["trees are planted", { order, facts: REPORTED }, "planted", 4],
  [
    "a verification completes a timeline of allocations, even if planting was not reported",
    { order, facts: reach("funds_distributed", "allocated", "planted_and_verified") },
    "planted_and_verified",
    4,
  ],
  ["distributed funds are hidden without their order", { facts: FUNDED }, "funds_distributed", 1],
  [
    "a verification completes a timeline of sessions",
    { order, shape: "sessions", facts: reach("funds_distributed", "planted_and_verified") },
    "planted_and_verified",
    3,
  ],
  [
    "a timeline of sessions does not show allocation and planting",
    { order, shape: "sessions", facts: REPORTED },
    "planted",
    2,
  ],
] as const satisfies readonly (readonly [string, GivenFacts, MilestoneEvent, number])[]) {
  test(title, (t) => {
    const { status: shown, timeline } = present(given);
    t.is(shown, status);
    t.deepEqual(
      timeline.map(({ step, event, status: reached }) => [step, event, reached]),
      ("shape" in given
        ? (["registered", "funds_distributed", "planted_and_verified"] as const)
        : ALL
      ).map((event, index) => [index + 1, event, index < completed ? "completed" : "pending"]),
    );
  });
}

test("every combination of stages matches the response schema, and shows no event twice", (t) => {
  for (const given of allFacts()) {
    const presented = present(given);
    t.deepEqual(treeEvidence.parse(JSON.parse(JSON.stringify(presented))), presented);
    const { timeline } = presented;
    t.is(new Set(timeline.map(({ event }) => event)).size, timeline.length);
    for (const { status, description } of timeline) {
      t.false(status === "completed" && /\b(?:will|next|yet)\b/u.test(description), description);
    }
  }
});

test("a completed milestone has its timestamp, its UTC date and its proof; a pending one has none", (t) => {
  const funds = { order, facts: FUNDED };
  t.deepEqual(milestone(funds, "funds_distributed"), {
    step: 2,
    event: "funds_distributed",
    title: "Funds distributed",
    status: "completed",
    date: "2026-05-01",
    timestamp: "2026-05-01T23:59:59.999Z",
    description: "The planting partner has the order and its funds.",
    evidence: {
      partner: "North Coast Planting",
      order_id: 7,
      order_public_id: "PO-7",
      tree_order_id: 21,
      tree_order_public_id: "to_0198c5de7c1f7b52a3a13f1f9a0c9e11",
      tree_amount: 4,
      buyer_name: "Forest & Söhne",
    },
  });
  t.deepEqual(milestone(funds, "allocated"), {
    step: 3,
    event: "allocated",
    title: "Allocated",
    status: "pending",
    description: "Planting sites and crews are not assigned yet.",
  });
  t.deepEqual(milestone({}, "registered")?.evidence, {
    tree_id: ID,
    record_id: ID,
    registered_at: "2026-04-30T22:15:00.123Z",
    count: 5,
    fractional_count: 5.5,
    attribution: "spring",
  });
  t.is(milestone({}, "registered")?.date, "2026-04-30");
  t.is(absoluteUrl("", BASE_URL), "");
});

const presentedMedium = (url: string, id = "photo-1", thumbnail = `${url}?small`) => ({
  id,
  type: "photo",
  url,
  thumbnail_url: thumbnail,
  latitude: -1.5,
  longitude: 40.25,
});

test("a verification proves planting that was not reported, with numbered photos of its session", (t) => {
  const facts = reach("funds_distributed", "allocated", "planted_and_verified");
  t.like(milestone({ order, facts }, "planted"), {
    timestamp: "2026-05-04T12:00:00.000Z",
    evidence: {
      partner: "North Coast Planting",
      date_planted: "2026-05-04T12:00:00.000Z",
      media: [
        presentedMedium(
          "https://impact.example/evidence/1.svg",
          "92-1",
          "https://impact.example/evidence/1.svg",
        ),
        presentedMedium("https://partner.example/2.jpg", "92-2", "https://partner.example/2.jpg"),
      ],
    },
  });
});

const descriptions = (given: GivenFacts) =>
  present(given).timeline.map(({ description }) => description);

test("evidence of trees that an earlier system has ordered does not say that they were not ordered", (t) => {
  const pending = Array.from({ length: 3 }, () => "There is no evidence of this here.");
  const arranged = "The trees were registered in an earlier system, which arranged their planting";
  t.deepEqual(descriptions({ isOrderedElsewhere: true }), [`${arranged}.`, ...pending]);
  t.deepEqual(descriptions({ isOrderedElsewhere: true, refundedCount: 5 }), [
    `${arranged}, and refunded in full. They no longer count for the account.`,
    ...pending,
  ]);
});

test("evidence says how many trees are refunded, and whether that was before their order", (t) => {
  const usual = descriptions({});
  const notOrdered = "The trees were refunded and are not ordered.";
  t.deepEqual(descriptions({ refundedCount: 5 }), [
    "The trees were registered, and refunded in full before they were ordered.",
    notOrdered,
    notOrdered,
    notOrdered,
  ]);
  t.deepEqual(descriptions({ refundedCount: 5, order }), [
    "The trees were registered, and refunded in full after they were ordered. They no longer count for the account.",
    ...usual.slice(1),
  ]);
  t.deepEqual(descriptions({ refundedCount: 4, order }), usual);
  t.deepEqual(descriptions({ order }), usual);
  t.like(present({ refundedCount: 0, order }), { refunded: false, refunded_count: 0 });
  t.like(present({ refundedCount: 2, order }), { refunded: true, refunded_count: 2 });
});

const PLANTED = { field_update_id: 81, planting_session_id: 82 };
const VERIFIED = { field_update_id: 91, planting_session_id: 92 };

for (const [title, facts, ids] of [
  ["none before the trees are allocated", reach("funds_distributed"), {}],
  ["the first allocation", ALLOCATED, { allocation_id: 11 }],
  ["the planted session", REPORTED, { allocation_id: 11, ...PLANTED }],
  ["the verified session before the planted one", FACTS, { allocation_id: 11, ...VERIFIED }],
  [
    "the verified session and its own allocation, if none was reported",
    reach("funds_distributed", "planted_and_verified"),
    { allocation_id: 90, ...VERIFIED },
  ],
  [
    "an allocation with id 0",
    {
      ...FACTS,
      allocated: {
        ...FACTS.allocated,
        allocations: [allocation("A-0", ""), allocation("A-1", "")],
      },
    },
    { allocation_id: 0, ...VERIFIED },
  ],
  [
    "those of the order if the report of planting names no session",
    {
      planted: {
        ...FACTS.planted,
        planting_session_reference: undefined,
        field_update_reference: undefined,
      },
    },
    { field_update_id: 71, planting_session_id: 72 },
  ],
] as const satisfies readonly (readonly [string, AcceptedFacts, object])[]) {
  test(`provider_meta has the ids of the order and ${title}`, (t) => {
    const expected = { order_id: 7, public_id: "PO-7", ...ids };
    t.deepEqual(present({ order, facts }).provider_meta, expected);
  });
}

test("provider_meta is empty without an order", (t) => {
  t.deepEqual(present({}).provider_meta, {});
});

const complete = (shape: "allocations" | "sessions") =>
  (["created", ...PLANTING_STAGES] as const).filter((stage) => isTimelineComplete(shape, stage));

test("a timeline is complete when verified, and with allocations already when planted", (t) => {
  t.deepEqual(complete("allocations"), ["planted", "planted_and_verified"]);
  t.deepEqual(complete("sessions"), ["planted_and_verified"]);
});

const summaryOf = (region: string, country = "A") =>
  presentEvidenceSummary(
    {
      registeredTrees: 1,
      planted: [],
      isSimulated: false,
      regions: [{ region, country, media: [] }],
    },
    "https://impact.example",
  );
const idOf = (region: string): string | undefined => summaryOf(region).regions[0]?.id;

test("a region whose country is unknown adds none to the countries", (t) => {
  t.deepEqual(summaryOf("North").summary.countries, ["A"]);
  t.like(summaryOf("North", "unknown"), {
    summary: { countries: [] },
    regions: [{ country: "unknown" }],
  });
});

test("the id of a region keeps the signs and accents of its letters, however they are written", (t) => {
  t.is(idOf("केरल"), "a-केरल");
  t.is(idOf("กำแพงเพชร"), "a-กำแพงเพชร");
  t.is(idOf("São Tomé (North)"), "a-são-tomé-north-");
  t.is(idOf("São Tomé".normalize("NFD")), idOf("São Tomé".normalize("NFC")));
});

const now = new Date("2026-05-01T00:00:00Z");

test("each type of forest has a factor for every time since 1970", (t) => {
  for (const at of [new Date(0), now]) {
    t.is(factorFor("mangrove", at).id, "mangrove-1");
    t.is(factorFor("terrestrial", at).id, "terrestrial-1");
  }
  t.throws(() => factorFor("mangrove", new Date(-1)), { message: /^No impact factor/u });
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
  t.throws(() => projectImpact([{ factorId: "mangrove-0", trees: 1 }]), {
    message: /is not in the table/u,
  });
});

test("trees without a known site count as terrestrial", (t) => {
  t.is(projectGenericCo2Kg(3, now), 600);
});
