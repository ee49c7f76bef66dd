import { z } from "zod";
import { factorFor, FOREST_TYPES } from "./impactFactors.rules.ts";

/** The part of an order's trees at one site. Weights are integers of at least 1; only their proportions matter. */
export const siteShare = z.strictObject({
  siteId: z.int(),
  region: z.string(),
  forestType: z.enum(FOREST_TYPES),
  weight: z.number(),
  /** The impact factor of its trees; null until they are planted. */
  factorId: z.string().nullable(),
});
export type SiteShare = Readonly<z.output<typeof siteShare>>;

/** Planted trees at one site under one impact factor. */
export type TallyEntry = {
  readonly siteId: number;
  readonly factorId: string;
  readonly planted: number;
  readonly verified: number;
};

/**
 * Splits an integer by integer weights into integers with the same sum; the first parts get the remainder. Uses bigint,
 * because the product of a total and a weight exceeds the safe integers.
 */
const splitByWeight = (total: number, weights: readonly number[]): readonly number[] => {
  const exact = weights.map((weight) => BigInt(weight));
  const sum = exact.reduce((running, weight) => running + weight, 0n);
  const shares = exact.map((weight) => Number((BigInt(total) * weight) / sum));
  const rest = total - shares.reduce((running, share) => running + share, 0);
  return shares.map((share, index) => (index < rest ? share + 1 : share));
};

type TalliedOrder = {
  readonly treeCount: number;
  readonly refundedCount: number;
  readonly siteShares: readonly SiteShare[];
  readonly verifiedAt: Date | null;
};

/** Returns shares with the impact factors of their trees if they are planted. Trees that had a factor keep it. */
export const withImpactFactors = (
  shares: readonly SiteShare[],
  plantedAt: Date | null,
  before: readonly SiteShare[],
): readonly SiteShare[] =>
  shares.map(({ siteId, region, forestType, weight }) => {
    const known = before.find(
      (share) => share.siteId === siteId && share.forestType === forestType,
    );
    const factorId =
      plantedAt === null ? null : (known?.factorId ?? factorFor(forestType, plantedAt).id);
    return { siteId, region, forestType, weight, factorId };
  });

/** Returns an order's share of its account's planted trees, without refunded ones. */
const tallyOf = (order: TalliedOrder): readonly TallyEntry[] => {
  const { siteShares, verifiedAt } = order;
  const trees = splitByWeight(
    order.treeCount - order.refundedCount,
    siteShares.map(({ weight }) => weight),
  );
  return siteShares.flatMap(({ siteId, factorId }, index) => {
    const planted = trees[index] ?? 0;
    const verified = verifiedAt === null ? 0 : planted;
    return factorId === null ? [] : [{ siteId, factorId, planted, verified }];
  });
};

/** An order before and after a change. */
type OrderChange = { readonly before: TalliedOrder; readonly after: TalliedOrder };

/** Returns the difference to an account's tally when orders change, in the order in which tallies are locked. */
export const tallyChanges = (orders: readonly OrderChange[]): readonly TallyEntry[] => {
  const changes = new Map<string, TallyEntry>();
  const add = (entries: readonly TallyEntry[], sign: 1 | -1): void => {
    for (const { siteId, factorId, planted, verified } of entries) {
      const key = `${siteId}/${factorId}`;
      const known = changes.get(key) ?? { siteId, factorId, planted: 0, verified: 0 };
      changes.set(key, {
        ...known,
        planted: known.planted + sign * planted,
        verified: known.verified + sign * verified,
      });
    }
  };
  for (const { before, after } of orders) {
    add(tallyOf(before), -1);
    add(tallyOf(after), 1);
  }
  return [...changes.values()]
    .filter(({ planted, verified }) => planted !== 0 || verified !== 0)
    .toSorted(
      (left, right) => left.siteId - right.siteId || left.factorId.localeCompare(right.factorId),
    );
};
