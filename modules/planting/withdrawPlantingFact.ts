import type { Actor } from "../accounts/audit.rules.ts";
import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import { findWithdrawalProblem } from "./order.rules.ts";
import { lockPlantingOrder, reopenPlantingOrder } from "./orders.sql.ts";
import { changeFacts } from "./settleFacts.ts";
import { deleteSummaries } from "./summary.sql.ts";

/**
 * Withdraws a reported fact, which stays stored with its proof: facts that needed it wait, and contradictions of it are decided
 * again. So a fact that was recorded to replace it takes effect. An operator who records the same fact again undoes it.
 * @throws DomainError record_not_found, or request_invalid if the order would be placed again or stay verified without its
 *   planting
 */
export const withdrawPlantingFact = (
  { db, clock, actor }: OperatorContext<Extract<Actor, { readonly kind: "operator" }>>,
  factId: number,
  reason: string,
) =>
  db.transaction(async (transaction) => {
    const before = requireFound(
      await lockPlantingOrder(transaction, { factId }),
      `fact ${factId} not found; see \`impact evidence order show\``,
    );
    const now = clock.now();
    const { order, facts, changes } = await changeFacts(transaction, before, {
      facts: [],
      source: "operator",
      now,
      withdrawal: { id: factId, reason, operator: actor.name, at: now },
    });
    const withdrawn = changes.find(({ fact }) => fact === factId);
    if (withdrawn) {
      const problem = findWithdrawalProblem(order, facts, withdrawn);
      if (problem !== null) {
        throw invalidRequest(problem);
      }
      await recordAction(transaction, actor, now, {
        action: "evidence.withdraw",
        accountId: before.accountId,
        subject: String(before.id),
        details: { fact: factId, stage: withdrawn.stage, changes },
      });
    }
    if (order !== before) {
      // An order without planted trees, too, may have changed the site of others.
      await deleteSummaries(transaction, null);
      await reopenPlantingOrder(transaction, order.id);
    }
    return { order: before.publicId, stageBefore: before.stage, stageAfter: order.stage, changes };
  });
