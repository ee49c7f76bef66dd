import test from "ava";
import { absoluteUrl, presentTreeEvidence } from "../../../api/endpoints/presentTreeEvidence.ts";
import type { PresentedTreeEvidence } from "../../../api/endpoints/treeEvidenceSchema.ts";
import { treeEvidence } from "../../../api/endpoints/treeEvidenceSchema.ts";
import { buildTreeEvidence } from "../../../modules/planting/timeline.rules.ts";
import type { MilestoneEvent } from "../../../modules/planting/timeline.rules.ts";
import { allFacts, factsOf, ID, order, reach, REACHED } from "./evidenceFacts.ts";
import type { GivenFacts } from "./evidenceFacts.ts";

const BASE_URL = "https://impact.example";

const present = (given: GivenFacts): PresentedTreeEvidence =>
  presentTreeEvidence(buildTreeEvidence(factsOf(given)), BASE_URL);

const milestone = (given: GivenFacts, event: MilestoneEvent) =>
  present(given).timeline.find((candidate) => candidate.event === event);

const steps = (shape: "allocations" | "sessions") =>
  present({ shape }).timeline.map(({ step, event, title }) => `${step} ${event}: ${title}`);

test("the steps of each shape are numbered in order", (t) => {
  t.deepEqual(steps("allocations"), [
    "1 registered: Registered",
    "2 funds_distributed: Funds distributed",
    "3 allocated: Allocated",
    "4 planted: Planted",
  ]);
  t.deepEqual(steps("sessions"), [
    "1 registered: Registered",
    "2 funds_distributed: Funds distributed",
    "3 planted_and_verified: Planted and verified",
  ]);
});

test("a completed milestone has its timestamp, its UTC date and its proof; a pending one has none", (t) => {
  const funds = { order, reached: reach("fundsDistributed") };
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
});

const descriptions = (given: GivenFacts) =>
  present(given).timeline.map(({ description }) => description);

const refundOf = (refundedCount: number) => {
  const { refunded, refunded_count } = present({ refundedCount, order });
  return { refunded, refunded_count };
};

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
  t.deepEqual(refundOf(0), { refunded: false, refunded_count: 0 });
  t.deepEqual(refundOf(2), { refunded: true, refunded_count: 2 });
});

test("no completed milestone speaks of the future", (t) => {
  for (const given of allFacts()) {
    for (const { status, description } of present(given).timeline) {
      t.false(status === "completed" && /\b(?:will|next|yet)\b/u.test(description), description);
    }
  }
});

const presentedAllocation = (id: number, image: string) => ({
  allocation_id: id,
  date_allocated: "2026-05-02T08:00:00.000Z",
  planting_site: {
    id: 3,
    name: "Bay",
    subsite_name: "",
    organization_name: "Coast",
    latitude: -1.5,
    longitude: 40.25,
    main_image: image,
  },
  crew: { leader: "", style: "", total_members: 0, women_members: 0 },
});

const presentedMedium = (url: string) => ({
  id: "photo-1",
  type: "photo",
  url,
  thumbnail_url: `${url}?small`,
  latitude: -1.5,
  longitude: 40.25,
});

test("paths on this service become URLs, and stored evidence is not changed", (t) => {
  const before = structuredClone(REACHED);
  const reached = reach("fundsDistributed", "allocated", "planted", "verified");
  t.deepEqual(milestone({ order, reached }, "allocated")?.evidence, {
    partner: "North Coast Planting",
    allocations: [
      presentedAllocation(11, "https://impact.example/sites/bay.svg"),
      presentedAllocation(12, "https://partner.example/x"),
    ],
  });
  t.deepEqual(milestone({ order, reached }, "planted")?.evidence, {
    partner: "North Coast Planting",
    date_planted: "2026-05-03T00:00:00.000Z",
    media: [
      presentedMedium("https://impact.example/photos/1.svg"),
      presentedMedium("https://partner.example/1.jpg"),
    ],
  });
  t.deepEqual(milestone({ order, reached, shape: "sessions" }, "planted_and_verified")?.evidence, {
    partner: "North Coast Planting",
    planting_site_name: "Bay",
    subsite_name: "",
    organization_name: "Coast",
    assessor_name: "Ann",
    verifier: "Coast Survey",
    date_verified: "2026-05-04T12:00:00.000Z",
    session_total_planted: 400,
    species: ["Rhizophora mucronata"],
    image_url: "https://impact.example/evidence/image.svg",
    allocation_id: 90,
    field_update_id: 91,
    planting_session_id: 92,
    latitude: "-1.5",
    longitude: "40.25",
    photos: ["https://impact.example/evidence/1.svg", "https://partner.example/2.jpg"],
  });
  t.deepEqual(REACHED, before);
});

test("URLs of other hosts and empty ones stay as they are", (t) => {
  t.is(absoluteUrl("/a", BASE_URL), "https://impact.example/a");
  t.is(absoluteUrl("https://partner.example/a", BASE_URL), "https://partner.example/a");
  t.is(absoluteUrl("", BASE_URL), "");
});

const metaOf = (given: GivenFacts) => present(given).provider_meta;

test("provider_meta has all five ids once the trees are planted", (t) => {
  t.deepEqual(metaOf({ order, reached: reach("fundsDistributed", "allocated", "planted") }), {
    order_id: 7,
    public_id: "PO-7",
    allocation_id: 11,
    field_update_id: 81,
    planting_session_id: 82,
  });
});

test("provider_meta holds only the ids that are known", (t) => {
  const ordered = { order_id: 7, public_id: "PO-7" };
  t.deepEqual(metaOf({}), {});
  t.deepEqual(metaOf({ order, reached: reach("fundsDistributed") }), ordered);
  t.deepEqual(metaOf({ order, reached: reach("fundsDistributed", "allocated") }), {
    ...ordered,
    allocation_id: 11,
  });
  t.deepEqual(metaOf({ order, reached: reach("fundsDistributed", "verified") }), {
    ...ordered,
    allocation_id: 90,
    field_update_id: 91,
    planting_session_id: 92,
  });
});

test("every combination of stages matches the response schema", (t) => {
  for (const given of allFacts()) {
    const presented = present(given);
    t.deepEqual(treeEvidence.parse(JSON.parse(JSON.stringify(presented))), presented);
  }
});
