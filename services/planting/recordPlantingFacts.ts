import { hash } from "node:crypto";
import type { DatabasePool, DatabaseTransactionConnection } from "slonik";
import type { FactSource, StoredFact } from "../../db/planting/facts.ts";
import { acceptFact, contradictFact, insertFact, listFacts } from "../../db/planting/facts.ts";
import { lockPlantingOrder, updatePlantingOrderProgress } from "../../db/planting/orders.ts";
import { addToTally } from "../../db/planting/tallies.ts";
import type { Actor } from "../../domain/accounts/audit.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { PlantingOrder, PlantingStage } from "../../domain/planting/order.ts";
import { decideFact, latestStage, PLANTING_STAGES } from "../../domain/planting/order.ts";
import { plantingFact } from "../../domain/planting/fact.ts";
import type { PlantingFact } from "../../domain/planting/fact.ts";
import { tallyChange } from "../../domain/planting/tally.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { applyPlantingFact } from "./applyPlantingFact.ts";

/** The outcome of a reported fact. */
export type RecordedFact = {
  readonly stage: PlantingFact["stage"];
  readonly outcome: "accepted" | "repeated" | "waiting" | "contradiction";
  readonly reason: string | null;
};

/** Clocks and time zones differ. A fact that is dated further ahead has not happened. */
const LEAD_MS = 24 * 60 * 60 * 1000;

/** Equal facts have equal digests, because the schema parses fields into a fixed order. */
const digestOf = (fact: PlantingFact): string => hash("sha256", JSON.stringify(fact), "hex");

const reachedOf = (facts: readonly StoredFact[]) =>
  facts.filter(({ state }) => state === "accepted");

const rankOf = (stage: PlantingStage): number => PLANTING_STAGES.indexOf(stage);

/** Applies every waiting fact that can take effect, and those that waited for it. */
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
  const stored = (await listFacts(transaction, order.id)).find(
    (candidate) => candidate.stage === fact.stage && candidate.digest === digest,
  );
  return { stage: fact.stage, outcome: stored?.state ?? "waiting", reason: stored?.reason ?? null };
};

/**
 * Records reported facts of an order, and the tallies that they change, in one transaction. Facts may come in any order
 * and repeatedly.
 * @throws DomainError record_not_found, or request_invalid if a fact is dated in the future
 */
export const recordPlantingFacts = (
  {
    db,
    clock,
    actor,
  }: {
    readonly db: DatabasePool;
    readonly clock: Clock;
    /** The operator who reports, if it is not the partner. */
    readonly actor?: Actor;
  },
  orderId: number,
  facts: readonly PlantingFact[],
  source: FactSource,
): Promise<readonly RecordedFact[]> =>
  db.transaction(async (transaction) => {
    const recorded: RecordedFact[] = [];
    let accountId: string | null = null;
    for (const fact of facts) {
      const order = await lockPlantingOrder(transaction, orderId);
      if (!order) {
        throw new DomainError("record_not_found", "failed to find planting order");
      }
      recorded.push(await recordOne(transaction, order, fact, source, clock.now()));
      accountId = order.accountId;
    }
    if (actor) {
      const details = { facts: recorded.map(({ stage, outcome }) => ({ stage, outcome })) };
      await recordAction(
        transaction,
        actor,
        { action: "evidence.record", accountId, subject: String(orderId), details },
        clock.now(),
      );
    }
    return recorded;
  });
