import test from "ava";
import type { PlantingOrder, SiteShare } from "../../../modules/planting/order.rules.ts";
import { tallyChanges, withImpactFactors } from "../../../modules/planting/tally.rules.ts";
import type { TallyEntry } from "../../../modules/planting/tally.rules.ts";
import { createRandom } from "../../support/random.ts";
import type { Random } from "../../support/random.ts";

type Order = Pick<
  PlantingOrder,
  "treeCount" | "refundedCount" | "siteShares" | "plantedAt" | "verifiedAt"
>;

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
): TallyEntry => ({ siteId, factorId, planted, verified });

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

const planted = { plantedAt: at };
const verified = { plantedAt: at, verifiedAt: at };
const two = { siteShares: [share(1, 1), share(2, 3)] };

test("an order that is not planted adds nothing, refunded or not", changes, {}, two, []);
test("an order without known sites adds nothing", changes, {}, { ...planted, siteShares: [] }, []);
test("planted trees are added at their sites", changes, two, { ...two, ...planted }, [
  entry(1, 3),
  entry(2, 7),
]);
test("an unchanged order changes nothing", changes, verified, verified, []);
test("verification adds verified trees only", changes, planted, verified, [entry(1, 0, 10)]);
test("verification without reported planting adds both", changes, {}, verified, [entry(1, 10, 10)]);
test(
  "refunded trees are subtracted, also from the verified ones",
  changes,
  verified,
  { ...verified, refundedCount: 4 },
  [entry(1, -4, -4)],
);
test(
  "a fully refunded order leaves nothing",
  changes,
  { ...two, ...verified },
  { ...two, ...verified, refundedCount: 10 },
  [entry(1, -3, -3), entry(2, -7, -7)],
);
test(
  "trees move when their site changes",
  changes,
  planted,
  { ...planted, siteShares: [share(2, 1)] },
  [entry(1, -10), entry(2, 10)],
);
test(
  "each type of forest has its own factor, sorted by site and factor",
  changes,
  {},
  {
    ...planted,
    treeCount: 6,
    siteShares: [
      share(12, 1),
      share(3, 1, "terrestrial"),
      share(3, 1, "mangrove"),
      share(3, 3, "terrestrial"),
    ],
  },
  [entry(3, 1), entry(3, 4, 0, "terrestrial-1"), entry(12, 1)],
);

const splits = test.macro({
  exec: (t, total: number, weights: readonly number[], expected: readonly number[]) => {
    const siteShares = weights.map((weight, index) => share(index, weight));
    const after = order({ ...planted, treeCount: total, siteShares });
    const parts = tallyChange(order(), after);
    t.deepEqual(
      weights.map((_, index) => parts.find(({ siteId }) => siteId === index)?.planted ?? 0),
      expected,
    );
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

const sumOf = (values: readonly number[]): number =>
  values.reduce((running, value) => running + value, 0);

/** Returns mostly extremes: small integers, and those next to the largest safe one. */
const extreme = (random: Random): number =>
  random.pick([
    1 + random.below(3),
    1 + random.below(1000),
    MOST - random.below(3),
    1 + Math.floor(random.next() * MOST),
  ]);

for (const seed of [1, 2, 3]) {
  test(`parts add up, none is negative and each is within one of its share (seed ${seed})`, (t) => {
    const random = createRandom(seed);
    for (let round = 0; round < 2000; round += 1) {
      const total = extreme(random);
      const weights = Array.from({ length: 1 + random.below(20) }, () => extreme(random));
      const siteShares = weights.map((weight, index) => share(index, weight));
      const parts = tallyChange(order(), order({ ...planted, treeCount: total, siteShares }));
      const sum = weights.reduce((running, weight) => running + BigInt(weight), 0n);
      const input = `${total} by ${weights.join(" ")}`;

      if (parts.reduce((running, part) => running + BigInt(part.planted), 0n) !== BigInt(total)) {
        t.fail(`${input}: the parts do not add up`);
      }
      for (const { siteId, planted: part } of parts) {
        const exact = BigInt(total) * BigInt(weights[siteId] ?? 0);
        const off = BigInt(part) * sum - exact;
        if (part < 0 || off > sum || off <= -sum) {
          t.fail(`${input}: site ${siteId} has ${part}`);
        }
      }
    }
    t.pass();
  });

  test(`an order's changes add up to its trees, and after a full refund to nothing (seed ${seed})`, (t) => {
    const random = createRandom(seed);
    for (let round = 0; round < 500; round += 1) {
      const treeCount = extreme(random);
      const tally = new Map<string, { planted: number; verified: number }>();
      let present = order({ treeCount, siteShares: [] });
      const become = (given: Order): void => {
        const after = withFactors(given);
        for (const change of tallyChange(present, after)) {
          const key = `${change.siteId}/${change.factorId}`;
          const known = tally.get(key) ?? { planted: 0, verified: 0 };
          tally.set(key, {
            planted: known.planted + change.planted,
            verified: known.verified + change.verified,
          });
        }
        present = after;
      };
      for (let step = 0; step < 6; step += 1) {
        become({
          ...present,
          refundedCount: Math.min(treeCount, present.refundedCount + random.below(treeCount)),
          plantedAt: random.pick([present.plantedAt, at]),
          verifiedAt: random.pick([present.verifiedAt, at]),
          siteShares: random.pick([
            present.siteShares,
            Array.from({ length: 1 + random.below(4) }, () =>
              share(random.below(4), extreme(random), random.pick(["mangrove", "terrestrial"])),
            ),
          ]),
        });
        const rows = [...tally.values()];
        const isCounted = present.plantedAt !== null && present.siteShares.length > 0;
        const left = isCounted ? treeCount - present.refundedCount : 0;
        t.is(sumOf(rows.map((row) => row.planted)), left);
        t.is(sumOf(rows.map((row) => row.verified)), present.verifiedAt === null ? 0 : left);
        // The database rejects negative tallies.
        t.true(rows.every((row) => row.planted >= row.verified && row.verified >= 0));
      }
      become({ ...present, refundedCount: treeCount });
      t.true([...tally.values()].every((row) => row.planted === 0 && row.verified === 0));
    }
  });
}
