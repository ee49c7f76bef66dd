import test from "ava";
import {
  absoluteUrl,
  buildTreeEvidence,
  NOTHING_REACHED,
} from "../../domain/planting/buildTreeEvidence.ts";
import type {
  EvidenceFacts,
  OrderedTrees,
  ReachedStages,
} from "../../domain/planting/buildTreeEvidence.ts";
import { treeEvidence } from "../../domain/planting/treeEvidence.ts";
import type {
  AllocatedEvidence,
  MilestoneEvent,
  PlantedEvidence,
  VerifiedEvidence,
} from "../../domain/planting/treeEvidence.ts";

const BASE_URL = "https://impact.example";
const ID = "0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11";

const order: OrderedTrees = {
  orderId: 7,
  orderPublicId: "PO-7",
  treeOrderId: 21,
  treeCount: 4,
  buyerName: "Forest & Söhne",
};

const allocation = (id: number, image: string): AllocatedEvidence["allocations"][number] => ({
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

const media = (url: string): PlantedEvidence["media"][number] => ({
  id: "photo-1",
  type: "photo",
  url,
  thumbnail_url: `${url}?small`,
  latitude: -1.5,
  longitude: 40.25,
});

const verifiedEvidence: VerifiedEvidence = {
  planting_site_name: "Bay",
  subsite_name: "",
  organization_name: "Coast",
  assessor_name: "Ann",
  verifier: "Somebody else",
  date_verified: "2026-05-04T12:00:00.000Z",
  session_total_planted: 400,
  species: ["Rhizophora mucronata"],
  image_url: "/evidence/image.svg",
  allocation_id: 90,
  field_update_id: 91,
  planting_session_id: 92,
  latitude: "-1.5",
  longitude: "40.25",
  photos: ["/evidence/1.svg", "https://partner.example/2.jpg"],
};

const REACHED = {
  fundsDistributed: { occurredAt: new Date("2026-05-01T23:59:59.999Z"), evidence: null },
  allocated: {
    occurredAt: new Date("2026-05-02T00:00:00.000Z"),
    evidence: {
      allocations: [allocation(11, "/sites/bay.svg"), allocation(12, "https://partner.example/x")],
    },
  },
  planted: {
    occurredAt: new Date("2026-05-03T00:00:00.000Z"),
    evidence: {
      date_planted: "2026-05-03T00:00:00.000Z",
      media: [media("/photos/1.svg"), media("https://partner.example/1.jpg")],
    },
  },
  verified: { occurredAt: new Date("2026-05-04T00:00:00.000Z"), evidence: verifiedEvidence },
} satisfies ReachedStages;

const AS_KEPT = structuredClone(REACHED);

type Stage = keyof ReachedStages;

const reach = (...stages: readonly Stage[]): ReachedStages => ({
  ...NOTHING_REACHED,
  ...Object.fromEntries(stages.map((stage) => [stage, REACHED[stage]])),
});

const factsOf = ({
  isRefunded = false,
  ...given
}: Partial<Omit<EvidenceFacts, "registration">> & {
  readonly isRefunded?: boolean;
}): EvidenceFacts => ({
  registration: {
    id: ID,
    createdAt: new Date("2026-04-30T22:15:00.123Z"),
    count: 5,
    fractionalCount: 5.5,
    attribution: "spring",
    isRefunded,
  },
  partnerName: "North Coast Planting",
  shape: "allocations",
  order: null,
  reached: NOTHING_REACHED,
  ...given,
});

const build = (given: Parameters<typeof factsOf>[0]) => buildTreeEvidence(factsOf(given), BASE_URL);

const milestone = (given: Parameters<typeof factsOf>[0], event: MilestoneEvent) =>
  build(given).timeline.find((candidate) => candidate.event === event);

const tells = test.macro({
  exec: (
    t,
    given: Parameters<typeof factsOf>[0],
    status: MilestoneEvent,
    completed: readonly MilestoneEvent[],
  ) => {
    const evidence = build(given);
    t.is(evidence.status, status);
    t.deepEqual(
      evidence.timeline.flatMap((step) => (step.status === "completed" ? [step.event] : [])),
      completed,
    );
  },
  title: (title = "") => title,
});

test("what is not ordered is registered", tells, {}, "registered", ["registered"]);
test("what is gathered is still registered", tells, { order }, "registered", ["registered"]);
test(
  "funds are distributed",
  tells,
  { order, reached: reach("fundsDistributed") },
  "funds_distributed",
  ["registered", "funds_distributed"],
);
test(
  "trees are allocated",
  tells,
  { order, reached: reach("fundsDistributed", "allocated") },
  "allocated",
  ["registered", "funds_distributed", "allocated"],
);
test(
  "trees are planted",
  tells,
  { order, reached: reach("fundsDistributed", "allocated", "planted") },
  "planted",
  ["registered", "funds_distributed", "allocated", "planted"],
);
test(
  "verification completes a timeline of allocations, reported as planted or not",
  tells,
  { order, reached: reach("fundsDistributed", "allocated", "verified") },
  "planted_and_verified",
  ["registered", "funds_distributed", "allocated", "planted"],
);
test(
  "verification completes a timeline of sessions",
  tells,
  { order, shape: "sessions", reached: reach("fundsDistributed", "verified") },
  "planted_and_verified",
  ["registered", "funds_distributed", "planted_and_verified"],
);
test(
  "a timeline of sessions does not show allocation and planting",
  tells,
  { order, shape: "sessions", reached: reach("fundsDistributed", "allocated", "planted") },
  "planted",
  ["registered", "funds_distributed"],
);

const steps = (shape: EvidenceFacts["shape"]) =>
  build({ shape }).timeline.map(({ step, event, title }) => `${step} ${event}: ${title}`);

test("the steps of each shape are numbered in their order", (t) => {
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

test("a completed milestone has its instant, its day in UTC and its evidence; a pending one has none", (t) => {
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
    description: "Planting sites and crews are assigned to the trees.",
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

const described = (given: Parameters<typeof factsOf>[0]) =>
  build(given).timeline.map(({ description }) => description);

test("only what was refunded before it was ordered is said never to be planted", (t) => {
  const usual = described({});
  t.deepEqual(described({ isRefunded: true }), [
    "The trees were refunded before they were ordered, and will not be planted.",
    ...usual.slice(1),
  ]);
  t.deepEqual(described({ isRefunded: true, order }), usual);
  t.deepEqual(described({ order }), usual);
});

const photo = (id: string, url: string) => ({
  id,
  type: "photo",
  url,
  thumbnail_url: url,
  latitude: -1.5,
  longitude: 40.25,
});

test("planting that nobody reported is shown by its verification, each photo under the session's number", (t) => {
  const reached = reach("fundsDistributed", "allocated", "verified");
  const planted = milestone({ order, reached }, "planted");
  t.is(planted?.timestamp, "2026-05-04T00:00:00.000Z");
  t.deepEqual(planted?.evidence, {
    partner: "North Coast Planting",
    date_planted: "2026-05-04T12:00:00.000Z",
    media: [
      photo("92-1", "https://impact.example/evidence/1.svg"),
      photo("92-2", "https://partner.example/2.jpg"),
    ],
  });
});

test("planting that was reported is shown as it was, verified or not", (t) => {
  const stages = ["fundsDistributed", "allocated", "planted"] as const;
  const planted = milestone({ order, reached: reach(...stages) }, "planted");
  t.is(planted?.timestamp, "2026-05-03T00:00:00.000Z");
  t.deepEqual(milestone({ order, reached: reach(...stages, "verified") }, "planted"), planted);
});

test("paths on this service become addresses, and nothing that is kept is changed", (t) => {
  const reached = reach("fundsDistributed", "allocated", "planted", "verified");
  t.deepEqual(milestone({ order, reached }, "allocated")?.evidence, {
    partner: "North Coast Planting",
    allocations: [
      allocation(11, "https://impact.example/sites/bay.svg"),
      allocation(12, "https://partner.example/x"),
    ],
  });
  t.deepEqual(milestone({ order, reached }, "planted")?.evidence, {
    partner: "North Coast Planting",
    date_planted: "2026-05-03T00:00:00.000Z",
    media: [media("https://impact.example/photos/1.svg"), media("https://partner.example/1.jpg")],
  });
  t.deepEqual(milestone({ order, reached, shape: "sessions" }, "planted_and_verified")?.evidence, {
    partner: "North Coast Planting",
    ...verifiedEvidence,
    image_url: "https://impact.example/evidence/image.svg",
    photos: ["https://impact.example/evidence/1.svg", "https://partner.example/2.jpg"],
  });
  t.deepEqual(REACHED, AS_KEPT);
});

test("an address of elsewhere, and none at all, stay as they are", (t) => {
  t.is(absoluteUrl("/a", BASE_URL), "https://impact.example/a");
  t.is(absoluteUrl("https://partner.example/a", BASE_URL), "https://partner.example/a");
  t.is(absoluteUrl("", BASE_URL), "");
});

const names = test.macro({
  exec: (t, given: Parameters<typeof factsOf>[0], expected: Readonly<Record<string, unknown>>) => {
    t.deepEqual(build(given).provider_meta, expected);
  },
  title: (title = "") => `the partner's names are told: ${title}`,
});

const ordered = { order_id: 7, public_id: "PO-7" };
const session = { field_update_id: 91, planting_session_id: 92 };

test("none before there is an order", names, {}, {});
test("the order's", names, { order, reached: reach("fundsDistributed") }, ordered);
test(
  "the first allocation's",
  names,
  { order, reached: reach("fundsDistributed", "allocated") },
  { ...ordered, allocation_id: 11 },
);
test(
  "the session's, with its own allocation where none was reported",
  names,
  { order, reached: reach("fundsDistributed", "verified") },
  { ...ordered, ...session, allocation_id: 90 },
);
test(
  "the reported allocation's before the session's",
  names,
  { order, reached: reach("fundsDistributed", "allocated", "verified") },
  { ...ordered, ...session, allocation_id: 11 },
);
test(
  "allocation number 0 as well",
  names,
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
  { ...ordered, ...session, allocation_id: 0 },
);

test("whatever is reached, the answer keeps to its schema and shows nothing twice", (t) => {
  const stages = ["fundsDistributed", "allocated", "planted", "verified"] as const;
  for (let subset = 0; subset < 2 ** stages.length; subset += 1) {
    const reached = reach(...stages.filter((_, index) => (subset & (1 << index)) !== 0));
    for (const shape of ["allocations", "sessions"] as const) {
      for (const isRefunded of [false, true]) {
        for (const evidence of [
          build({ shape, isRefunded, reached, order }),
          build({ shape, isRefunded, reached }),
        ]) {
          t.deepEqual(treeEvidence.parse(JSON.parse(JSON.stringify(evidence))), evidence);
          const { timeline } = evidence;
          t.is(new Set(timeline.map(({ event }) => event)).size, timeline.length);
        }
      }
    }
  }
});

test("funds are not shown without the order that they are for", (t) => {
  t.is(milestone({ reached: reach("fundsDistributed") }, "funds_distributed")?.status, "pending");
});
