import type { DatabaseTransactionConnection } from "slonik";
import { addRefundedToPlantingOrder, lockPlantingOrderOf } from "../../db/planting/orders.ts";
import { addToTally } from "../../db/planting/tallies.ts";
import { tallyChange } from "../../domain/planting/tally.ts";

/**
 * Subtracts refunded trees from the account's planted trees. Trees that are in no order are simply never ordered.
 * The caller must hold the registration's lock, so that no order is created of its trees meanwhile.
 */
export const releaseRefundedTrees = async (
  transaction: DatabaseTransactionConnection,
  registrationId: string,
  count: number,
): Promise<void> => {
  const order = await lockPlantingOrderOf(transaction, registrationId);
  if (order) {
    await addRefundedToPlantingOrder(transaction, order.id, count);
    const after = { ...order, refundedCount: order.refundedCount + count };
    await addToTally(transaction, order, tallyChange(order, after));
  }
};
