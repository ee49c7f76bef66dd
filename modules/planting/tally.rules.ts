import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
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

/** Planted trees of an account at one site under one impact factor. */
export type TallyEntry = AccountMode & {
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

type TalliedOrder = AccountMode & {
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

/** Returns the planted trees of an order, without refunded ones, times a sign. */
const tallyOf = (order: TalliedOrder, sign: 1 | -1): readonly TallyEntry[] => {
  const { accountId, mode, siteShares, verifiedAt } = order;
  const weights = siteShares.map(({ weight }) => weight);
  const trees = splitByWeight(order.treeCount - order.refundedCount, weights);
  return siteShares.flatMap(({ siteId, factorId }, index) => {
    const planted = sign * (trees[index] ?? 0);
    const verified = verifiedAt === null ? 0 : planted;
    return factorId === null ? [] : [{ accountId, mode, siteId, factorId, planted, verified }];
  });
};

/** Returns the differences to tallies when orders change, always in the same order, in which the tallies are locked. */
export const tallyChanges = (
  orders: readonly { readonly before: TalliedOrder; readonly after: TalliedOrder }[],
): readonly TallyEntry[] => {
  const changes = new Map<string, TallyEntry>();
  for (const entry of orders.flatMap(({ before, after }) => [
    ...tallyOf(before, -1),
    ...tallyOf(after, 1),
  ])) {
    const key = [entry.accountId, entry.mode, entry.siteId, entry.factorId].join(" ");
    const { planted, verified } = changes.get(key) ?? { planted: 0, verified: 0 };
    const sums = { planted: planted + entry.planted, verified: verified + entry.verified };
    changes.set(key, { ...entry, ...sums });
  }
  return [...changes.keys()].toSorted().flatMap((key) => {
    const entry = changes.get(key);
    return entry && (entry.planted !== 0 || entry.verified !== 0) ? [entry] : [];
  });
};
