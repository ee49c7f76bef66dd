import type { DatabaseTransactionConnection } from "slonik";
import type { StoredFact } from "./facts.sql.ts";
import {
  insertMedia,
  getOrCreateReferenceId as getOrCreateOwnReferenceId,
  upsertSite,
} from "./sites.sql.ts";
import type { PlantingMedia, ReferenceKind } from "./sites.sql.ts";
import {
  allocationEvidence,
  allocationReferenceOf,
  plantedEvidence,
  sessionReferencesOf,
  verifiedEvidence,
} from "./evidence.rules.ts";
import type { AllocatedEvidence, StageEvidence } from "./evidence.rules.ts";
import { findImportedReferenceId } from "./order.rules.ts";
import type { PlantingOrder, SiteShare } from "./order.rules.ts";
import type { PlantingFactOf, ReportedSite } from "./fact.rules.ts";

type Applied = {
  readonly order: PlantingOrder;
  readonly evidence: StageEvidence | null;
};

/** Returns the integer that evidence shows for a reference: that of the other system if the order was imported. */
const getOrCreateReferenceId = async (
  transaction: DatabaseTransactionConnection,
  partner: string,
  kind: ReferenceKind,
  reference: string,
): Promise<number> =>
  findImportedReferenceId(partner, reference) ??
  getOrCreateOwnReferenceId(transaction, partner, kind, reference);

const shareOf = async (
  transaction: DatabaseTransactionConnection,
  { partner }: PlantingOrder,
  factId: number,
  site: ReportedSite,
  weight: number,
): Promise<SiteShare> => ({
  siteId: await upsertSite(transaction, partner, site, factId),
  region: site.region,
  forestType: site.forest_type,
  weight,
  factorId: null,
});

/** Adds up the weights of several allocations at one site. */
const mergeShares = (shares: readonly SiteShare[]): readonly SiteShare[] => {
  const bySite = new Map<number, SiteShare>();
  for (const share of shares) {
    const known = bySite.get(share.siteId);
    bySite.set(share.siteId, known ? { ...known, weight: known.weight + share.weight } : share);
  }
  return [...bySite.values()];
};

const applyAllocated = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  factId: number,
  fact: PlantingFactOf<"allocated">,
): Promise<Applied> => {
  const shares: SiteShare[] = [];
  const allocations: AllocatedEvidence["allocations"][number][] = [];
  for (const allocation of fact.allocations) {
    const { reference, trees, planting_site: site } = allocation;
    const share = await shareOf(transaction, order, factId, site, trees);
    shares.push(share);
    allocations.push(
      allocationEvidence(allocation, {
        allocationId: await getOrCreateReferenceId(
          transaction,
          order.partner,
          "allocation",
          reference,
        ),
        siteId: findImportedReferenceId(order.partner, site.reference) ?? share.siteId,
      }),
    );
  }
  return { order: { ...order, siteShares: mergeShares(shares) }, evidence: { allocations } };
};

const storeMedia = async (
  transaction: DatabaseTransactionConnection,
  { id: orderId, accountId, mode }: PlantingOrder,
  { site, takenAt }: { readonly site: SiteShare | undefined; readonly takenAt: Date },
  media: readonly PlantingMedia[],
): Promise<void> => {
  if (site && media.length > 0) {
    const { siteId } = site;
    await insertMedia(transaction, { orderId, accountId, mode, siteId, takenAt, media });
  }
};

const applyPlanted = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  fact: PlantingFactOf<"planted">,
): Promise<Applied> => {
  const at = new Date(fact.occurred_at);
  await storeMedia(
    transaction,
    order,
    // A report of planted trees does not name their site.
    { site: order.siteShares[0], takenAt: at },
    fact.media.map(({ thumbnail_url: thumbnailUrl, reference: _reference, ...media }) => ({
      ...media,
      thumbnailUrl,
    })),
  );
  const { plantingSession, fieldUpdate } = sessionReferencesOf(fact, order.publicId);
  const evidence = plantedEvidence(fact, {
    fieldUpdateId: await getOrCreateReferenceId(
      transaction,
      order.partner,
      "field_update",
      fieldUpdate,
    ),
    plantingSessionId: await getOrCreateReferenceId(
      transaction,
      order.partner,
      "planting_session",
      plantingSession,
    ),
  });
  return { order: { ...order, plantedAt: at }, evidence };
};

const applyVerified = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  factId: number,
  fact: PlantingFactOf<"planted_and_verified">,
): Promise<Applied> => {
  const at = new Date(fact.occurred_at);
  const share = await shareOf(transaction, order, factId, fact.planting_site, 1);
  const siteShares = order.siteShares.length > 0 ? order.siteShares : [share];
  await storeMedia(
    transaction,
    order,
    // No trees count at a site without an allocation, so photos of it belong to the first site that has one.
    {
      site: siteShares.find(({ siteId }) => siteId === share.siteId) ?? siteShares[0],
      takenAt: at,
    },
    fact.photos.map((url) => ({
      type: "photo",
      url,
      thumbnailUrl: url,
      latitude: fact.latitude,
      longitude: fact.longitude,
    })),
  );
  const idOf = (kind: ReferenceKind, reference: string) =>
    getOrCreateReferenceId(transaction, order.partner, kind, reference);
  const evidence = verifiedEvidence(fact, {
    allocationId: await idOf("allocation", allocationReferenceOf(fact)),
    fieldUpdateId: await idOf("field_update", fact.field_update_reference),
    plantingSessionId: await idOf("planting_session", fact.planting_session_reference),
  });
  return {
    order: { ...order, siteShares, plantedAt: order.plantedAt ?? at, verifiedAt: at },
    evidence,
  };
};

/**
 * Applies an accepted fact to its order, and stores its sites and media.
 * @returns the changed order, which is not stored yet, and the proof for timelines
 */
export const applyPlantingFact = (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  { id, content: fact }: Pick<StoredFact, "id" | "content">,
): Promise<Applied> => {
  switch (fact.stage) {
    case "funds_distributed":
      return Promise.resolve({
        order: { ...order, partnerReference: fact.partner_reference },
        evidence: null,
      });
    case "allocated":
      return applyAllocated(transaction, order, id, fact);
    case "planted":
      return applyPlanted(transaction, order, fact);
    case "planted_and_verified":
      return applyVerified(transaction, order, id, fact);
  }
};
