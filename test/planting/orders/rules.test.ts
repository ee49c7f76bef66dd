import test from "ava";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import type { StoredFact } from "../../../modules/planting/facts.sql.ts";
import { decideFact, decideFacts, PLANTING_STAGES } from "../../../modules/planting/order.rules.ts";
import type {
  FactDecision,
  PlantingStage,
  ReachedStage,
} from "../../../modules/planting/order.rules.ts";
import type { PlantingOrder } from "../../../modules/planting/orders.sql.ts";
import { tallyChanges, withImpactFactors } from "../../../modules/planting/tally.rules.ts";
import type { SiteShare, TallyEntry } from "../../../modules/planting/tally.rules.ts";

const START_MS = Date.UTC(2026, 4, 1);

const fact = (stage: PlantingStage, afterMs = 0): ReachedStage => ({
  stage,
  occurredAt: new Date(START_MS + afterMs),
});

const accepted = { state: "accepted", reason: null } as const;
const waiting = { state: "waiting", reason: null } as const;
const distributed = fact("funds_distributed");
const allocated = fact("allocated");
const plantedFact = fact("planted");
const verifiedFact = fact("planted_and_verified");

for (const [timeline, stage, needed] of [
  ["allocations", "funds_distributed", []],
  ["sessions", "funds_distributed", []],
  ["allocations", "allocated", ["funds_distributed"]],
  ["allocations", "planted", ["funds_distributed", "allocated"]],
  ["allocations", "planted_and_verified", ["funds_distributed", "allocated"]],
  ["sessions", "allocated", ["funds_distributed"]],
  ["sessions", "planted", ["funds_distributed", "allocated"]],
  ["sessions", "planted_and_verified", ["funds_distributed"]],
] as const) {
  const others = PLANTING_STAGES.filter((other) => other !== stage);
  const reachedBy = (stages: readonly PlantingStage[]) => stages.map((other) => fact(other));
  test(`${stage} of ${timeline} requires ${needed.join(" and ") || "nothing"}, and nothing else`, (t) => {
    t.deepEqual(decideFact(timeline, reachedBy(needed), fact(stage)), accepted);
    for (const missing of needed) {
      const reached = reachedBy(others.filter((other) => other !== missing));
      t.deepEqual(decideFact(timeline, reached, fact(stage)), waiting, missing);
    }
  });
}

const contradicts = (reason: string): FactDecision => ({ state: "contradiction", reason });

for (const [title, reached, given, expected] of [
  [
    "different details at the same time are a contradiction",
    [distributed, allocated],
    fact("allocated"),
    contradicts("allocated is already recorded with different details"),
  ],
  [
    "different details are reported before missing stages and wrong dates",
    [plantedFact],
    fact("planted", -9 * DAY_MS),
    contradicts("planted is already recorded with different details"),
  ],
  [
    "a fact without an earlier stage waits, even if its date is wrong",
    [distributed],
    fact("planted", -9 * DAY_MS),
    waiting,
  ],
  [
    "a day before an earlier stage is tolerated",
    [distributed],
    fact("allocated", -DAY_MS),
    accepted,
  ],
  [
    "a day and a millisecond before an earlier stage is a contradiction",
    [distributed],
    fact("allocated", -DAY_MS - 1),
    contradicts(
      "allocated is dated 2026-04-29T23:59:59.999Z, but funds_distributed 2026-05-01T00:00:00.000Z",
    ),
  ],
  [
    "a day after a later stage is tolerated",
    [distributed, allocated, verifiedFact],
    fact("planted", DAY_MS),
    accepted,
  ],
  [
    "a day and a millisecond after a later stage is a contradiction",
    [distributed, allocated, verifiedFact],
    fact("planted", DAY_MS + 1),
    contradicts(
      "planted is dated 2026-05-02T00:00:00.001Z, but planted_and_verified 2026-05-01T00:00:00.000Z",
    ),
  ],
  [
    "years after an earlier stage and before a later one are accepted",
    [distributed, allocated, fact("planted_and_verified", 2000 * DAY_MS)],
    fact("planted", 1000 * DAY_MS),
    accepted,
  ],
  [
    "a date is compared with every earlier stage, not only the last",
    [fact("funds_distributed", 5 * DAY_MS), fact("allocated", 4 * DAY_MS)],
    fact("planted", 3.5 * DAY_MS),
    contradicts(
      "planted is dated 2026-05-04T12:00:00.000Z, but funds_distributed 2026-05-06T00:00:00.000Z",
    ),
  ],
] as const satisfies readonly (readonly [
  string,
  readonly ReachedStage[],
  ReachedStage,
  FactDecision,
])[]) {
  test(title, (t) => {
    t.deepEqual(decideFact("allocations", reached, given), expected);
    t.deepEqual(decideFact("allocations", reached.toReversed(), given), expected);
  });
}

const permute = <Item>(items: readonly Item[]): readonly (readonly Item[])[] =>
  items.length === 0
    ? [[]]
    : items.flatMap((item) =>
        permute(items.filter((other) => other !== item)).map((rest) => [item].concat(rest)),
      );

let lastId = 0;
const inState = (state: StoredFact["state"], given: ReachedStage) => ({
  ...given,
  state,
  id: (lastId += 1),
});

for (const [timeline, stages] of [
  ["allocations", PLANTING_STAGES],
  ["sessions", PLANTING_STAGES],
  ["sessions", ["funds_distributed", "planted_and_verified"]],
] as const) {
  test(`${stages.length} facts of ${timeline} all take effect, in whatever order they came`, (t) => {
    for (const given of permute(stages.map((stage, index) => fact(stage, index * DAY_MS)))) {
      const facts = given.map((each) => inState("waiting", each));
      const states = [...decideFacts(timeline, facts).values()];
      t.deepEqual(
        states,
        stages.map(() => accepted),
      );
    }
  });
}

type Order = Pick<
  PlantingOrder,
  "accountId" | "mode" | "treeCount" | "refundedCount" | "siteShares" | "plantedAt" | "verifiedAt"
>;

const OWNER = { accountId: "a", mode: "live" } as const;

const tallyChange = (before: Order, after: Order) => tallyChanges([{ before, after }]);

const at = new Date("2026-05-01T00:00:00Z");

const share = (siteId: number, weight: number, forestType: SiteShare["forestType"] = "mangrove") =>
  ({ siteId, region: "Coast", forestType, weight, factorId: null }) satisfies SiteShare;

const withFactors = (given: Order): Order => ({
  ...given,
  siteShares: withImpactFactors(given.siteShares, given.plantedAt, given.siteShares),
});

const order = (given: Partial<Order> = {}): Order =>
  withFactors({
    ...OWNER,
    treeCount: 10,
    refundedCount: 0,
    siteShares: [share(1, 1)],
    plantedAt: null,
    verifiedAt: null,
    ...given,
  });

const entry = (
  siteId: number,
  planted: number,
  verified = 0,
  factorId = "mangrove-1",
): TallyEntry => ({ ...OWNER, siteId, factorId, planted, verified });

const changes = test.macro({
  exec: (t, before: Partial<Order>, after: Partial<Order>, expected: readonly TallyEntry[]) => {
    t.deepEqual(tallyChange(order(before), order(after)), expected);
    // The reverse change subtracts exactly the same.
    t.deepEqual(
      tallyChange(order(after), order(before)),
      expected.map(({ planted, verified, ...key }) => ({
        ...key,
        planted: planted === 0 ? 0 : -planted,
        verified: verified === 0 ? 0 : -verified,
      })),
    );
  },
  title: (title = "") => title,
});

const PLANTED = { plantedAt: at };
const VERIFIED = { plantedAt: at, verifiedAt: at };
const TWO = { siteShares: [share(1, 1), share(2, 3)] };

test("an order that is not planted adds nothing, refunded or not", changes, {}, TWO, []);
test("an order without known sites adds nothing", changes, {}, { ...PLANTED, siteShares: [] }, []);
test("planted trees are added at their sites", changes, TWO, { ...TWO, ...PLANTED }, [
  entry(1, 3),
  entry(2, 7),
]);
test("an unchanged order changes nothing", changes, VERIFIED, VERIFIED, []);
test("verification adds verified trees only", changes, PLANTED, VERIFIED, [entry(1, 0, 10)]);
test("verification without reported planting adds both", changes, {}, VERIFIED, [entry(1, 10, 10)]);
test(
  "refunded trees are subtracted, also from the verified ones",
  changes,
  VERIFIED,
  { ...VERIFIED, refundedCount: 4 },
  [entry(1, -4, -4)],
);
test(
  "a fully refunded order leaves nothing",
  changes,
  { ...TWO, ...VERIFIED },
  { ...TWO, ...VERIFIED, refundedCount: 10 },
  [entry(1, -3, -3), entry(2, -7, -7)],
);
test(
  "trees move when their site changes",
  changes,
  PLANTED,
  { ...PLANTED, siteShares: [share(2, 1)] },
  [entry(1, -10), entry(2, 10)],
);
test(
  "each type of forest has its own factor, in the order of site and factor as texts",
  changes,
  {},
  {
    ...PLANTED,
    treeCount: 6,
    siteShares: [
      share(12, 1),
      share(3, 1, "terrestrial"),
      share(3, 1, "mangrove"),
      share(3, 3, "terrestrial"),
    ],
  },
  [entry(12, 1), entry(3, 1), entry(3, 4, 0, "terrestrial-1")],
);

const splits = test.macro({
  exec: (t, total: number, weights: readonly number[], expected: readonly number[]) => {
    const siteShares = weights.map((weight, index) => share(index, weight));
    const parts = tallyChange(order(), order({ ...PLANTED, treeCount: total, siteShares }));
    const planted = weights.map(
      (_, index) => parts.find(({ siteId }) => siteId === index)?.planted ?? 0,
    );
    t.deepEqual(planted, expected);
  },
  title: (title = "") => `trees are split by weight: ${title}`,
});

const MOST = Number.MAX_SAFE_INTEGER;

test("the remainder goes to the first sites", splits, 11, [1, 1, 1, 1], [3, 3, 3, 2]);
test("no tree goes to a site of negligible weight", splits, 5, [MOST, 1, MOST], [3, 0, 2]);
test("the largest count, over the most unequal sites", splits, MOST, [1, MOST - 1], [1, MOST - 1]);
test(
  "the largest count, with a sum of weights beyond the safe integers",
  splits,
  MOST,
  [MOST, MOST, MOST],
  [3_002_399_751_580_331, 3_002_399_751_580_330, 3_002_399_751_580_330],
);
