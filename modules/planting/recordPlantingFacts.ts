import type { OperatorContext } from "../accounts/context.ts";
import { recordAction } from "../accounts/recordAction.ts";
import type { Context } from "../../runtime/context.ts";
import type { PlantingFact } from "./fact.rules.ts";
import type { FactSource } from "./facts.sql.ts";
import { requireFound } from "../../runtime/errors.rules.ts";
import { ORDER_NOT_FOUND } from "./order.rules.ts";
import type { PlantingOrder } from "./orders.sql.ts";
import { lockPlantingOrder } from "./orders.sql.ts";
import { changeFacts } from "./settleFacts.ts";

/**
 * Records facts of an order, which its workflow finds at its next poll.
 * @param orderId the number of the order, or its public id
 * @throws DomainError record_not_found or request_invalid, as `changeFacts`; nothing is recorded then
 */
export const recordPlantingFacts = (
  { db, clock, actor }: Context & Partial<OperatorContext>,
  orderId: number | string,
  reported: readonly PlantingFact[] | ((order: PlantingOrder) => readonly PlantingFact[]),
  source: FactSource,
) =>
  db.transaction(async (transaction) => {
    const order = requireFound(await lockPlantingOrder(transaction, orderId), ORDER_NOT_FOUND);
    const now = clock.now();
    const facts = typeof reported === "function" ? reported(order) : reported;
    const { recorded } = await changeFacts(transaction, order, { facts, source, now });
    if (actor) {
      const details = { facts: recorded.map(({ stage, outcome }) => ({ stage, outcome })) };
      await recordAction(transaction, actor, now, {
        action: "evidence.record",
        accountId: order.accountId,
        subject: String(order.id),
        details,
      });
    }
    return recorded;
  });
