import { hash } from "node:crypto";
import type { DatabaseTransactionConnection } from "slonik";
import { insertEvents } from "../events/events.sql.ts";
import type { NewEvent } from "../events/events.sql.ts";
import { createEvent } from "../events/recordEvent.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { findFutureProblem, plantingFact, sitesOf } from "./fact.rules.ts";
import type { AcceptedFacts, PlantingFact } from "./fact.rules.ts";
import { insertFact, listFacts, storeDecision, withdrawFact } from "./facts.sql.ts";
import type { FactSource, StoredFact } from "./facts.sql.ts";
import type { PlantingStage } from "./order.rules.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import type { SiteShare } from "./tally.rules.ts";
import { decideFacts, latestStage, PLANTING_STAGES } from "./order.rules.ts";
import { updatePlantingOrderProgress } from "./orders.sql.ts";
import { listSiteIds, storeSites } from "./sites.sql.ts";
import { deleteSummaries } from "./summary.sql.ts";
import { addToTallies } from "./tallies.sql.ts";
import { tallyChanges, withImpactFactors } from "./tally.rules.ts";

/** Equal facts have equal digests, because the schema parses fields into a fixed order. */
export const digestOf = (fact: PlantingFact): string => hash("sha256", JSON.stringify(fact), "hex");

const sharesOf = ({ content }: StoredFact, siteIds: ReadonlyMap<string, number>) => {
  const allocations = content.stage === "allocated" ? content.allocations : [];
  const bySite = new Map<number, SiteShare>();
  for (const [index, site] of sitesOf(content).entries()) {
    const { reference, region, forest_type: forestType } = site;
    const siteId = siteIds.get(reference) ?? 0;
    const known = bySite.get(siteId) ?? { siteId, region, forestType, weight: 0, factorId: null };
    bySite.set(siteId, { ...known, weight: known.weight + (allocations[index]?.trees ?? 1) });
  }
  return [...bySite.values()];
};

const timeOf = (fact: PlantingFact | undefined): Date | null =>
  fact ? new Date(fact.occurred_at) : null;

const inEffect = (facts: readonly StoredFact[]): readonly StoredFact[] =>
  facts.filter(({ state }) => state === "accepted");

const referencesOf = (facts: readonly StoredFact[]): readonly string[] =>
  facts.flatMap(({ content }) => sitesOf(content).map(({ reference }) => reference));

/** Derives an order from the facts in effect, and stores their sites and all decisions. The order is not stored yet. */
const settleFacts = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
  factsBefore: readonly StoredFact[],
): Promise<{ readonly order: PlantingOrder; readonly facts: readonly StoredFact[] }> => {
  const found = await listFacts(transaction, before.id);
  const decided = decideFacts(before.timeline, found);
  const facts = found.map((fact): StoredFact => Object.assign({}, fact, decided.get(fact.id)));
  const accepted = inEffect(facts);
  const isAccepted = new Set(accepted.map(({ id }) => id));
  const wasAccepted = new Set(inEffect(factsBefore).map(({ id }) => id));
  // Of a site that a withdrawn fact has named, the details are again those of the fact that still names it.
  const released = new Set(
    referencesOf(inEffect(factsBefore).filter(({ id }) => !isAccepted.has(id))),
  );
  const stored = accepted.flatMap(({ id, content }) =>
    sitesOf(content).filter(({ reference }) => !wasAccepted.has(id) || released.has(reference)),
  );
  await storeSites(transaction, before.partner, stored);
  const siteIds = await listSiteIds(transaction, before.partner, referencesOf(accepted));
  const named = new Map(accepted.map((fact) => [fact.stage, sharesOf(fact, siteIds)]));
  const shares = named.get("allocated") ?? named.get("planted_and_verified") ?? [];
  const contents: AcceptedFacts = Object.fromEntries(
    accepted.map(({ stage, content }) => [stage, content]),
  );
  const plantedAt = timeOf(contents.planted ?? contents.planted_and_verified);
  // A report of planted trees names no site. No trees count at a site without an allocation, so photos of it belong to the
  // first site that has one.
  const shownSiteOf = ({ stage, state }: StoredFact): number | null => {
    if (state !== "accepted" || stage === "funds_distributed") {
      return null;
    }
    const own = new Set(named.get(stage)?.map(({ siteId }) => siteId));
    return (shares.find(({ siteId }) => own.has(siteId)) ?? shares[0])?.siteId ?? null;
  };
  // The accepted ones last, because an order has one of each stage.
  for (const fact of [...facts.filter(({ state }) => state !== "accepted"), ...accepted]) {
    await storeDecision(transaction, fact, shownSiteOf(fact));
  }
  const order = {
    ...before,
    stage: latestStage(accepted.map(({ stage }) => stage)),
    partnerReference: contents.funds_distributed?.partner_reference ?? null,
    siteShares: withImpactFactors(shares, plantedAt, before.siteShares),
    plantedAt,
    verifiedAt: timeOf(contents.planted_and_verified),
  };
  return { order, facts };
};

const milestoneReached = (order: PlantingOrder, milestone: PlantingStage): NewEvent =>
  createEvent(order, {
    type: "evidence.milestone_reached",
    data: {
      order_id: order.shownId,
      public_id: order.shownPublicId,
      milestone,
      tree_count: order.treeCount - order.refundedCount,
    },
  });

type Change = {
  readonly facts: readonly PlantingFact[];
  readonly source: FactSource;
  readonly now: Date;
  readonly withdrawal?: Parameters<typeof withdrawFact>[1];
};

/**
 * Records facts of an order or withdraws one, and stores what follows: its stage, sites and tally, and events of the milestones
 * that it has reached. Facts may come in any order and repeatedly. The caller must hold the order's lock.
 * @returns `order`: the same object if nothing has changed
 * @throws DomainError request_invalid if a fact is dated in the future
 */
export const changeFacts = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
  { facts: reported, source, now, withdrawal }: Change,
) => {
  const contents = reported.map((fact) => plantingFact.parse(fact));
  const [problem] = contents.flatMap((fact) => findFutureProblem(fact, now) ?? []);
  if (problem !== undefined) {
    throw invalidRequest(problem);
  }
  const factsBefore = await listFacts(transaction, before.id);
  const stateBefore = new Map(factsBefore.map(({ id, state }) => [id, state]));
  if (withdrawal) {
    await withdrawFact(transaction, withdrawal);
  }
  const given: { stage: PlantingStage; digest: string; newId: number | null }[] = [];
  for (const content of contents) {
    const digest = digestOf(content);
    const newId = await insertFact(transaction, before.id, { content, digest, source, now });
    given.push({ stage: content.stage, digest, newId });
  }
  const { order, facts } = await settleFacts(transaction, before, factsBefore);

  // A fact that was withdrawn stays withdrawn, however often it is reported.
  const recorded = given.map(({ stage, digest, newId }) => {
    const found = facts.find((fact) => fact.stage === stage && fact.digest === digest);
    const { id = null, state = "waiting", reason = null } = found ?? {};
    return id === newId || state === "withdrawn"
      ? { stage, outcome: state, reason }
      : { stage, outcome: "repeated" as const, reason: null };
  });
  // Of earlier facts that have another state now.
  const changes = facts.flatMap(({ id, stage, state: after }) => {
    const state = stateBefore.get(id) ?? after;
    return state === after ? [] : [{ fact: id, stage, before: state, after }];
  });
  const reached = inEffect(facts)
    .filter(({ id }) => stateBefore.get(id) !== "accepted")
    .map(({ stage }) => stage);
  if (reached.length === 0 && changes.every((change) => change.before !== "accepted")) {
    return { order: before, facts, recorded, changes };
  }
  await updatePlantingOrderProgress(transaction, order);
  await addToTallies(transaction, tallyChanges([{ before, after: order }]));
  // The next request renews the summary.
  if (reached.some((stage) => stage === "planted" || stage === "planted_and_verified")) {
    await deleteSummaries(transaction, order);
  }
  const reachedBefore = new Set(inEffect(factsBefore).map(({ stage }) => stage));
  // Planting may be reported after its verification. An order that falls back, because a fact was withdrawn, can reach a
  // stage again. The milestones of imported evidence were reached in another system.
  const events = PLANTING_STAGES.filter(
    (stage) => source !== "import" && reached.includes(stage) && !reachedBefore.has(stage),
  ).map((milestone) => milestoneReached(order, milestone));
  await insertEvents(transaction, events, now);
  return { order, facts, recorded, changes };
};
