import type { DatabaseTransactionConnection } from "slonik";
import { lockNextOrdersOf } from "./nextOrders.sql.ts";
import { addRefundedToPlantingOrders } from "./orders.sql.ts";
import type { RefundedTrees } from "./orders.sql.ts";
import { addToTallies } from "./tallies.sql.ts";
import { tallyChanges } from "./tally.rules.ts";

/**
 * Subtracts refunded trees from their owners' planted trees. Trees whose order is not created yet are simply never ordered: it
 * is not created before the transaction ends. The caller must hold the registrations' locks, and refunds the trees afterwards.
 */
export const releaseRefundedTrees = async (
  transaction: DatabaseTransactionConnection,
  refunded: readonly RefundedTrees[],
): Promise<void> => {
  const ids = refunded.map(({ registrationId }) => registrationId);
  await lockNextOrdersOf(transaction, ids);
  const orders = await addRefundedToPlantingOrders(transaction, refunded);
  const changes = orders.map(({ order, count }) => ({
    before: { ...order, refundedCount: order.refundedCount - count },
    after: order,
  }));
  await addToTallies(transaction, tallyChanges(changes));
};
