import type { DatabaseTransactionConnection } from "slonik";
import { addRefundedToPlantingOrder, lockPlantingOrderOf } from "../../db/planting/orders.ts";
import { addToTally } from "../../db/planting/tallies.ts";
import { tallyChange } from "../../domain/planting/tally.ts";

/**
 * Takes refunded trees out of what their account has planted. Trees that no order holds yet are simply not gathered.
 * To be called under the registration's lock, which keeps a gathering away meanwhile.
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
