import type { DatabaseTransactionConnection } from "slonik";
import type { PlantingFact, PlantingFactOf, ReportedSite } from "./fact.rules.ts";
import type { PlantingOrder, SiteShare } from "./order.rules.ts";
import { upsertSite } from "./sites.sql.ts";

type Applied = {
  readonly order: PlantingOrder;
  /** The sites that the fact is about. Its photos and videos show the first. */
  readonly siteIds: readonly number[];
};

/** Returns the shares of sites with weights. Several of one site are one share. */
const sharesOf = async (
  transaction: DatabaseTransactionConnection,
  { partner }: PlantingOrder,
  factId: number,
  sites: readonly { readonly site: ReportedSite; readonly weight: number }[],
): Promise<readonly [SiteShare, ...SiteShare[]]> => {
  const bySite = new Map<number, SiteShare>();
  for (const { site, weight } of sites) {
    const siteId = await upsertSite(transaction, partner, site, factId);
    const known = bySite.get(siteId);
    bySite.set(siteId, {
      siteId,
      region: site.region,
      forestType: site.forest_type,
      factorId: null,
      ...known,
      weight: (known?.weight ?? 0) + weight,
    });
  }
  const [first, ...others] = bySite.values();
  if (!first) {
    throw new RangeError("A fact that allocates trees has a site.");
  }
  return [first, ...others];
};

const applyVerified = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  factId: number,
  { planting_site: site, occurred_at: occurredAt }: PlantingFactOf<"planted_and_verified">,
): Promise<Applied> => {
  const shares = await sharesOf(transaction, order, factId, [{ site, weight: 1 }]);
  const siteShares = order.siteShares.length > 0 ? order.siteShares : shares;
  const [{ siteId }] = shares;
  // No trees count at a site without an allocation, so photos of it belong to the first site that has one.
  const shown = siteShares.find((share) => share.siteId === siteId) ?? siteShares[0];
  const verifiedAt = new Date(occurredAt);
  return {
    order: { ...order, siteShares, plantedAt: order.plantedAt ?? verifiedAt, verifiedAt },
    siteIds: [...new Set([shown?.siteId ?? siteId, siteId])],
  };
};

/**
 * Applies an accepted fact to its order, and stores its sites.
 * @returns the changed order, which is not stored yet
 */
export const applyPlantingFact = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  { id, content: fact }: { readonly id: number; readonly content: PlantingFact },
): Promise<Applied> => {
  switch (fact.stage) {
    case "funds_distributed":
      return { order: { ...order, partnerReference: fact.partner_reference }, siteIds: [] };
    case "allocated": {
      const siteShares = await sharesOf(
        transaction,
        order,
        id,
        fact.allocations.map(({ planting_site: site, trees: weight }) => ({ site, weight })),
      );
      return { order: { ...order, siteShares }, siteIds: siteShares.map(({ siteId }) => siteId) };
    }
    case "planted":
      return {
        order: { ...order, plantedAt: new Date(fact.occurred_at) },
        // A report of planted trees does not name their site.
        siteIds: order.siteShares.slice(0, 1).map(({ siteId }) => siteId),
      };
    case "planted_and_verified":
      return applyVerified(transaction, order, id, fact);
  }
};
