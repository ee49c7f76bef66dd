import type { DatabaseTransactionConnection } from "slonik";
import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { PlantingReport } from "./fact.rules.ts";
import { findFactOrder, listFacts, withdrawFact } from "./facts.sql.ts";
import type { StoredFact } from "./facts.sql.ts";
import { findWithdrawalProblem } from "./order.rules.ts";
import type { OrderStage } from "./order.rules.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import { lockPlantingOrder } from "./orders.sql.ts";
import { reopenPlantingOrder } from "./orderWorkflows.sql.ts";
import { recordFacts } from "./settleFacts.ts";
import type { RecordedFact, RecordedReport } from "./settleFacts.ts";
import { deleteSummaries } from "./summary.sql.ts";

type WithdrawalContext = OperatorContext<Extract<Actor, { readonly kind: "operator" }>>;

/** What a correction changed. */
export type CorrectedOrder = Pick<RecordedReport, "changes"> & {
  readonly order: string;
  readonly stageBefore: OrderStage;
  readonly stageAfter: OrderStage;
  /** The outcomes of the replacement's facts. */
  readonly replacement: readonly RecordedFact[];
};

/** @throws DomainError record_not_found */
const lockFact = async (
  transaction: DatabaseTransactionConnection,
  factId: number,
): Promise<{
  readonly order: PlantingOrder;
  readonly facts: readonly StoredFact[];
  readonly fact: StoredFact;
}> => {
  const orderId = await findFactOrder(transaction, factId);
  const order = orderId === null ? null : await lockPlantingOrder(transaction, orderId);
  const facts = order === null ? [] : await listFacts(transaction, order.id);
  const fact = facts.find(({ id }) => id === factId);
  if (!order || !fact) {
    throw new DomainError(
      "record_not_found",
      `fact ${factId} not found; see \`impact evidence order show\``,
    );
  }
  return { order, facts, fact };
};

type Withdrawal = {
  /** Why the fact is wrong. */
  readonly reason: string;
  /** What to record instead. */
  readonly replacement: PlantingReport | null;
};

/**
 * Withdraws a reported fact and records those that replace it, and stores what follows for its order, in one transaction. A
 * withdrawn fact stays stored with its proof: facts that needed it wait, and contradictions of it are decided again. Repeating
 * a withdrawal changes nothing. An operator who records the same fact again undoes it.
 * @throws DomainError record_not_found, or request_invalid if the replacement is of another order, or the order would be placed
 *   again or stay verified without its planting
 */
export const correctPlantingFact = (
  { db, clock, actor }: WithdrawalContext,
  factId: number,
  { reason, replacement }: Withdrawal,
): Promise<CorrectedOrder> =>
  db.transaction(async (transaction) => {
    const { order: before, facts: factsBefore, fact } = await lockFact(transaction, factId);
    const now = clock.now();
    if (replacement && replacement.order !== before.publicId) {
      throw invalidRequest(
        `the replacement is of ${replacement.order}, but the fact is of ${before.publicId}`,
      );
    }
    if (fact.state !== "withdrawn") {
      await withdrawFact(transaction, factId, { reason, operator: actor.name, at: now });
    }
    const { order, facts, changes, recorded } = await recordFacts(transaction, before, {
      facts: replacement?.facts ?? [],
      source: "operator",
      now,
      factsBefore,
    });
    const problem = findWithdrawalProblem(order, facts, fact);
    if (problem !== null) {
      throw invalidRequest(problem);
    }
    if (order !== before) {
      // An order without planted trees, too, may have changed the site of others.
      await deleteSummaries(transaction, null);
      await reopenPlantingOrder(transaction, order.id);
    }
    // A replacement that only waits changes nothing else, yet it is stored.
    if (changes.length > 0 || recorded.length > 0) {
      await recordAction(transaction, actor, now, {
        action: "evidence.withdraw",
        accountId: before.accountId,
        subject: String(before.id),
        details: { fact: factId, stage: fact.stage, changes, replacement: recorded },
      });
    }
    return {
      order: before.publicId,
      stageBefore: before.stage,
      stageAfter: order.stage,
      changes,
      replacement: recorded,
    };
  });
