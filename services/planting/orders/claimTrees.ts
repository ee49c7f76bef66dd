import type { DatabasePool } from "slonik";
import { listClaims, lockClaims, replaceClaims } from "../../../db/planting/claims.ts";
import { creditOrder } from "../../../domain/planting/creditOrder.ts";
import type { RecordedTrees } from "../../../domain/planting/creditOrder.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";

/**
 * Credits an order with trees of its partner's records that no other order has. Concurrent calls for one partner wait for
 * each other.
 * @param records are used up in this order
 * @returns all claims of the order
 */
export const claimTrees = (
  { db }: { readonly db: DatabasePool },
  order: Pick<PlantingOrder, "id" | "partner" | "treeCount">,
  records: readonly RecordedTrees[],
): Promise<readonly RecordedTrees[]> =>
  db.transaction(async (transaction) => {
    await lockClaims(transaction, order.partner);
    const references = records.map(({ reference }) => reference);
    const claims = await listClaims(transaction, order.partner, order.id, references);
    const credited = creditOrder(order, records, claims);
    await replaceClaims(transaction, order.partner, order.id, credited);
    return credited;
  });
