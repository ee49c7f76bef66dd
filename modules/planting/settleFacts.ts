import { hash } from "node:crypto";
import type { DatabaseTransactionConnection } from "slonik";
import type { FactSource, StoredFact } from "./facts.sql.ts";
import {
  acceptFact,
  contradictFact,
  countUnsettledFacts,
  findFact,
  insertFact,
  listFacts,
} from "./facts.sql.ts";
import { deleteSummaries } from "./summary.sql.ts";
import { updatePlantingOrderProgress } from "./orders.sql.ts";
import { addToTally } from "./tallies.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { findFutureProblem, plantingFact } from "./fact.rules.ts";
import type { PlantingFact } from "./fact.rules.ts";
import type { PlantingOrder, PlantingStage } from "./order.rules.ts";
import type { TimelineShape } from "../../runtime/config/partnerKinds.rules.ts";
import {
  decideFact,
  findTimelineProblem,
  findUnsettledProblem,
  latestStage,
  PLANTING_STAGES,
} from "./order.rules.ts";
import { tallyChange, withImpactFactors } from "./tally.rules.ts";
import { applyPlantingFact } from "./applyPlantingFact.ts";
import { insertEvents } from "../events/events.sql.ts";
import { createEvent } from "../events/recordEvent.ts";

/** The outcome of a reported fact. A fact that was withdrawn stays withdrawn, however often it is reported. */
export type RecordedFact = {
  readonly stage: PlantingFact["stage"];
  readonly outcome: "repeated" | StoredFact["state"];
  readonly reason: string | null;
};

/** Equal facts have equal digests, because the schema parses fields into a fixed order. */
export const digestOf = (fact: PlantingFact): string => hash("sha256", JSON.stringify(fact), "hex");

const rankOf = (stage: PlantingStage): number => PLANTING_STAGES.indexOf(stage);

/**
 * Applies every waiting fact that can take effect, and those that waited for it. The caller must hold the order's lock.
 * @returns the changed order, which is not stored yet
 */
export const settleFacts = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
): Promise<PlantingOrder> => {
  // Nothing depends on contradictions, of which there may be many.
  const facts = await listFacts(transaction, before.id, ["accepted", "waiting"]);
  const reached = facts.filter(({ state }) => state === "accepted");
  let waiting = facts
    .filter(({ state }) => state === "waiting")
    .toSorted((left, right) => rankOf(left.stage) - rankOf(right.stage));
  let order = before;
  for (;;) {
    const decided = waiting
      .map((fact) => ({ fact, decision: decideFact(order.timeline, reached, fact) }))
      .find(({ decision }) => decision.state === "accepted" || decision.state === "contradiction");
    if (!decided) {
      return order;
    }
    const { fact, decision } = decided;
    waiting = waiting.filter(({ id }) => id !== fact.id);
    if (decision.state === "contradiction") {
      await contradictFact(transaction, fact.id, decision.reason);
      continue;
    }
    const { order: changed, siteIds } = await applyPlantingFact(transaction, order, fact);
    await acceptFact(transaction, fact.id, siteIds);
    reached.push(fact);
    order = { ...changed, stage: latestStage(reached.map(({ stage }) => stage)) };
  }
};

/**
 * Gives an order the timeline that a report says, and lets facts take effect that waited for it.
 * @returns the changed order, which is not stored yet
 * @throws DomainError request_invalid if the order's timeline cannot change
 */
export const changeTimeline = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  timeline: TimelineShape | undefined,
): Promise<PlantingOrder> => {
  if (timeline === undefined || timeline === order.timeline) {
    return order;
  }
  const problem = findTimelineProblem(order);
  if (problem !== null) {
    throw invalidRequest(problem);
  }
  return settleFacts(transaction, { ...order, timeline });
};

/**
 * Stores what facts have changed of an order, the factors of its planted trees, and the tallies that it changes. The next
 * request renews the summary if trees were planted or verified.
 */
export const storeProgress = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
  changed: PlantingOrder,
): Promise<void> => {
  const after = withImpactFactors(changed);
  await updatePlantingOrderProgress(transaction, after);
  await addToTally(transaction, after, tallyChange(before, after));
  if (after.plantedAt !== before.plantedAt || after.verifiedAt !== before.verifiedAt) {
    await deleteSummaries(transaction, after);
  }
};

const outcomeOf = ({ stage, state, reason }: StoredFact): RecordedFact => ({
  stage,
  outcome: state,
  reason,
});

type Report = { readonly source: FactSource; readonly now: Date };

/** Records a reported fact, as `recordFacts` does. */
const recordFact = async (
  transaction: DatabaseTransactionConnection,
  order: PlantingOrder,
  reported: PlantingFact,
  { source, now }: Report,
): Promise<{ readonly order: PlantingOrder; readonly recorded: RecordedFact }> => {
  const fact = plantingFact.parse(reported);
  const futureProblem = findFutureProblem(fact, now);
  if (futureProblem !== null) {
    throw invalidRequest(futureProblem);
  }
  const digest = digestOf(fact);
  const isNew = await insertFact(transaction, {
    orderId: order.id,
    source,
    content: fact,
    digest,
    receivedAt: now,
  });
  const settled = isNew ? await settleFacts(transaction, order) : order;
  const stored = await findFact(transaction, order.id, { stage: fact.stage, digest });
  if (!stored) {
    throw new Error(`The fact ${fact.stage} of ${order.publicId} is recorded, yet not found.`);
  }
  // Operators may record any number: they correct what a partner has reported.
  if (isNew && source !== "operator" && stored.state !== "accepted") {
    const problem = findUnsettledProblem(await countUnsettledFacts(transaction, order.id));
    if (problem !== null) {
      throw invalidRequest(`${fact.stage}: ${problem}`);
    }
  }
  return {
    order: settled,
    recorded:
      isNew || stored.state === "withdrawn"
        ? outcomeOf(stored)
        : { stage: fact.stage, outcome: "repeated", reason: null },
  };
};

/**
 * Records reported facts one after another. The caller must hold the order's lock.
 * @returns the outcomes, and the changed order, which is not stored yet
 * @throws DomainError request_invalid if a fact is dated in the future, or is a partner's that does not take effect and
 *   the order has too many of them
 */
export const recordFacts = async (
  transaction: DatabaseTransactionConnection,
  before: PlantingOrder,
  reported: readonly PlantingFact[],
  report: Report,
): Promise<{ readonly order: PlantingOrder; readonly recorded: readonly RecordedFact[] }> => {
  let order = before;
  const recorded: RecordedFact[] = [];
  for (const fact of reported) {
    const result = await recordFact(transaction, order, fact, report);
    recorded.push(result.recorded);
    order = result.order;
  }
  return { order, recorded };
};

const hasReached = (facts: readonly StoredFact[], stage: PlantingStage): boolean =>
  facts.some((fact) => fact.state === "accepted" && fact.stage === stage);

/**
 * Records an event for each stage that an order has reached since. Planting may be reported after its verification. An order
 * that falls back, because a fact was withdrawn, can reach a stage again.
 * @param before the order's facts before, at least the accepted ones
 */
export const recordMilestones = async (
  transaction: DatabaseTransactionConnection,
  before: readonly StoredFact[],
  after: PlantingOrder,
  now: Date,
): Promise<void> => {
  const accepted = await listFacts(transaction, after.id, ["accepted"]);
  const reached = PLANTING_STAGES.filter(
    (stage) => hasReached(accepted, stage) && !hasReached(before, stage),
  );
  const { shownId, shownPublicId, accountId, mode, treeCount, refundedCount } = after;
  const events = reached.map((milestone) =>
    createEvent(
      { accountId, mode },
      {
        type: "evidence.milestone_reached",
        data: {
          order_id: shownId,
          public_id: shownPublicId,
          milestone,
          tree_count: treeCount - refundedCount,
        },
      },
    ),
  );
  await insertEvents(transaction, events, now);
};
