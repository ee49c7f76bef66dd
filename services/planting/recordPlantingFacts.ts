import { hash } from "node:crypto";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import type { FactSource, StoredFact } from "../../db/planting/facts.ts";
import { acceptFact, contradictFact, insertFact, listFacts } from "../../db/planting/facts.ts";
import { lockPlantingOrder, updatePlantingOrderProgress } from "../../db/planting/orders.ts";
import { addToTally } from "../../db/planting/tallies.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { PlantingOrder, PlantingStage } from "../../domain/planting/order.ts";
import { decideFact, latestStage, PLANTING_STAGES } from "../../domain/planting/order.ts";
import { plantingFact } from "../../domain/planting/fact.ts";
import type { PlantingFact } from "../../domain/planting/fact.ts";
import { tallyChange } from "../../domain/planting/tally.ts";
import { applyPlantingFact } from "./applyPlantingFact.ts";

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

const reachedOf = (facts: readonly StoredFact[]) =>
  facts.filter(({ state }) => state === "accepted");

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
    const { order: changed, evidence } = await applyPlantingFact(transaction, order, fact.content);
    await acceptFact(transaction, order.id, fact, evidence);
    order = {
      ...changed,
      stage: latestStage([...reached.map(({ stage }) => stage), fact.stage]),
    };
  }
  if (order !== before) {
    await updatePlantingOrderProgress(transaction, order);
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
      const order = await lockPlantingOrder(transaction, orderId);
      if (!order) {
        throw new DomainError("record_not_found", "failed to find planting order");
      }
      recorded.push(await recordOne(transaction, order, fact, source, clock.now()));
    }
    return recorded;
  });
