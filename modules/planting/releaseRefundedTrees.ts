import type { DatabaseTransactionConnection } from "slonik";
import { addRefundedToPlantingOrders, lockPlantingOrdersOf } from "./orders.sql.ts";
import type { RefundedTrees } from "./orders.sql.ts";
import { addToTally } from "./tallies.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { tallyChanges } from "./tally.rules.ts";

/**
 * Subtracts refunded trees from their owner's planted trees, with the same number of statements for one registration and
 * for thousands. Trees that are in no order are simply never ordered. The caller must hold the registrations' locks, so
 * that no order is created of their trees meanwhile.
 */
export const releaseRefundedTrees = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  refunded: readonly RefundedTrees[],
): Promise<void> => {
  const locked = await lockPlantingOrdersOf(transaction, refunded);
  if (locked.length === 0) {
    return;
  }
  await addRefundedToPlantingOrders(
    transaction,
    locked.map(({ order, count }) => ({ id: order.id, count })),
  );
  const changes = locked.map(({ order, count }) => ({
    before: order,
    after: { ...order, refundedCount: order.refundedCount + count },
  }));
  await addToTally(transaction, owner, tallyChanges(changes));
};
