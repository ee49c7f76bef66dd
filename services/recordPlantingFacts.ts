import { hash } from "node:crypto";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import type { FactSource, KeptFact } from "../db/plantingFacts.ts";
import { acceptFact, contradictFact, insertFact, listFacts } from "../db/plantingFacts.ts";
import { lockOrder, updateOrderProgress } from "../db/plantingOrders.ts";
import { insertMedia, numberReference, upsertSite } from "../db/plantingSites.ts";
import type { PlantingMedia } from "../db/plantingSites.ts";
import { addToTally } from "../db/plantingTallies.ts";
import type { Clock } from "../domain/clock.ts";
import { DomainError } from "../domain/errors.ts";
import type { PlantingOrder, PlantingStage, SiteShare } from "../domain/planting.ts";
import { decideFact, latestStage, PLANTING_STAGES } from "../domain/planting.ts";
import { plantingFact } from "../domain/plantingFact.ts";
import type { PlantingFact, PlantingFactOf, ReportedSite } from "../domain/plantingFact.ts";
import { tallyChange } from "../domain/plantingTally.ts";
import type {
  AllocatedEvidence,
  PlantedEvidence,
  VerifiedEvidence,
} from "../domain/treeEvidence.ts";

/** What became of a reported fact. */
export type RecordedFact = {
  readonly stage: PlantingFact["stage"];
  readonly outcome: "accepted" | "repeated" | "waiting" | "contradiction";
  readonly reason: string | null;
};

/** Clocks differ; a milestone that is further ahead has not happened. */
const LEAD_MS = 24 * 60 * 60 * 1000;

/** The schemas write a fact's fields in one order, so equal facts have equal texts. */
const digestOf = (fact: PlantingFact): string => hash("sha256", JSON.stringify(fact), "hex");

type Applied = { readonly order: PlantingOrder; readonly evidence: object | null };

const shareOf = async (
  transaction: DatabaseTransactionConnection,
  { partner }: PlantingOrder,
  site: ReportedSite,
  weight: number,
): Promise<SiteShare> => ({
  siteId: await upsertSite(transaction, partner, site),
  region: site.region,
  forestType: site.forest_type,
  weight,
});

/** Several allocations may be at one site. */
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
  fact: PlantingFactOf<"allocated">,
): Promise<Applied> => {
  const shares: SiteShare[] = [];
  const allocations: AllocatedEvidence["allocations"] = [];
  for (const { reference, date_allocated, trees, planting_site: site, crew } of fact.allocations) {
    const share = await shareOf(transaction, order, site, trees);
    shares.push(share);
    allocations.push({
      allocation_id: await numberReference(transaction, order.partner, "allocation", reference),
      date_allocated,
      planting_site: {
        id: share.siteId,
        name: site.name,
        subsite_name: site.subsite_name,
        organization_name: site.organization_name,
        latitude: site.latitude,
        longitude: site.longitude,
        main_image: site.main_image,
      },
      crew,
    });
  }
  const evidence: AllocatedEvidence = { allocations };
  return { order: { ...order, siteShares: mergeShares(shares) }, evidence };
};

const keepMedia = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  takenAt: Date,
  media: readonly PlantingMedia[],
): Promise<void> => {
  const [site] = order.siteShares;
  if (site && media.length > 0) {
    const { id: orderId, accountId, mode } = order;
    await insertMedia(transaction, {
      orderId,
      accountId,
      mode,
      siteId: site.siteId,
      takenAt,
      media,
    });
  }
};

const applyPlanted = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  fact: PlantingFactOf<"planted">,
): Promise<Applied> => {
  const at = new Date(fact.occurred_at);
  await keepMedia(
    transaction,
    order,
    at,
    fact.media.map(({ thumbnail_url: thumbnailUrl, reference: _reference, ...media }) => ({
      ...media,
      thumbnailUrl,
    })),
  );
  const evidence: PlantedEvidence = {
    date_planted: fact.occurred_at,
    media: fact.media.map(({ reference: id, ...media }) => ({ id, ...media })),
  };
  return { order: { ...order, plantedAt: at }, evidence };
};

const applyVerified = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  fact: PlantingFactOf<"planted_and_verified">,
): Promise<Applied> => {
  const at = new Date(fact.occurred_at);
  const { partner } = order;
  const { planting_site: site, planting_session_reference: session } = fact;
  const share = await shareOf(transaction, order, site, 1);
  const located: PlantingOrder = {
    ...order,
    siteShares: order.siteShares.length > 0 ? order.siteShares : [share],
  };
  await keepMedia(
    transaction,
    located,
    at,
    fact.photos.map((url) => ({
      type: "photo",
      url,
      thumbnailUrl: url,
      latitude: fact.latitude,
      longitude: fact.longitude,
    })),
  );
  const evidence: VerifiedEvidence = {
    planting_site_name: site.name,
    subsite_name: site.subsite_name,
    organization_name: site.organization_name,
    assessor_name: fact.assessor_name,
    verifier: fact.verifier,
    date_verified: fact.occurred_at,
    session_total_planted: fact.session_total_planted,
    species: fact.species,
    image_url: fact.image_url,
    allocation_id: await numberReference(
      transaction,
      partner,
      "allocation",
      fact.allocation_reference ?? session,
    ),
    field_update_id: await numberReference(
      transaction,
      partner,
      "field_update",
      fact.field_update_reference,
    ),
    planting_session_id: await numberReference(transaction, partner, "planting_session", session),
    latitude: String(fact.latitude),
    longitude: String(fact.longitude),
    photos: fact.photos,
  };
  return { order: { ...located, plantedAt: order.plantedAt ?? at, verifiedAt: at }, evidence };
};

const apply = (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  fact: PlantingFact,
): Promise<Applied> => {
  switch (fact.stage) {
    case "funds_distributed":
      return Promise.resolve({
        order: { ...order, partnerReference: fact.partner_reference },
        evidence: null,
      });
    case "allocated":
      return applyAllocated(transaction, order, fact);
    case "planted":
      return applyPlanted(transaction, order, fact);
    case "planted_and_verified":
      return applyVerified(transaction, order, fact);
  }
};

const reachedOf = (facts: readonly KeptFact[]) => facts.filter(({ state }) => state === "accepted");

const rankOf = (stage: PlantingStage): number => PLANTING_STAGES.indexOf(stage);

/** Takes what can take effect now, the facts that waited for one another included. */
const settle = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
): Promise<void> => {
  let order = before;
  for (;;) {
    const facts = await listFacts(transaction, order.id);
    const reached = reachedOf(facts);
    const decided = facts
      .filter(({ state }) => state === "waiting")
      .toSorted((left, right) => rankOf(left.stage) - rankOf(right.stage))
      .map((fact) => ({ fact, decision: decideFact(order.timeline, reached, fact) }))
      .find(({ decision }) => decision.state === "accepted" || decision.state === "contradiction");
    if (!decided) {
      break;
    }
    const { fact, decision } = decided;
    if (decision.state === "contradiction") {
      await contradictFact(transaction, order.id, fact, decision.reason);
      continue;
    }
    const { order: changed, evidence } = await apply(transaction, order, fact.content);
    await acceptFact(transaction, order.id, fact, evidence);
    order = {
      ...changed,
      stage: latestStage([...reached.map(({ stage }) => stage), fact.stage]),
    };
  }
  if (order !== before) {
    await updateOrderProgress(transaction, order);
    await addToTally(transaction, order, tallyChange(before, order));
  }
};

const recordOne = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  reported: PlantingFact,
  source: FactSource,
  now: Date,
): Promise<RecordedFact> => {
  const fact = plantingFact.parse(reported);
  if (new Date(fact.occurred_at).getTime() > now.getTime() + LEAD_MS) {
    throw new DomainError("request_invalid", `${fact.stage}: occurred_at is in the future`);
  }
  const digest = digestOf(fact);
  const isNew = await insertFact(transaction, {
    orderId: order.id,
    state: "waiting",
    reason: null,
    source,
    content: fact,
    digest,
    receivedAt: now,
  });
  if (!isNew) {
    return { stage: fact.stage, outcome: "repeated", reason: null };
  }
  await settle(transaction, order);
  const kept = (await listFacts(transaction, order.id)).find(
    (candidate) => candidate.stage === fact.stage && candidate.digest === digest,
  );
  return { stage: fact.stage, outcome: kept?.state ?? "waiting", reason: kept?.reason ?? null };
};

/**
 * Records what was reported of an order, all of it in one transaction: milestones in whatever order and however often
 * they come, and the tallies that they change.
 * @throws DomainError record_not_found, or request_invalid when a fact has not happened yet
 */
export const recordPlantingFacts = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  orderId: number,
  facts: readonly PlantingFact[],
  source: FactSource,
): Promise<readonly RecordedFact[]> =>
  db.transaction(async (transaction) => {
    const recorded: RecordedFact[] = [];
    for (const fact of facts) {
      const order = await lockOrder(transaction, orderId);
      if (!order) {
        throw new DomainError("record_not_found", "failed to find planting order");
      }
      recorded.push(await recordOne(transaction, order, fact, source, clock.now()));
    }
    return recorded;
  });
