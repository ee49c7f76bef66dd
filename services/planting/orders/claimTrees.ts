import type { CommonQueryMethods, DatabasePool } from "slonik";
import {
  changeClaims,
  listClaims,
  listCreditedTrees,
  lockClaims,
} from "../../../db/planting/claims.ts";
import { claimChanges, creditOrder } from "../../../domain/planting/creditOrder.ts";
import type { RecordedTrees } from "../../../domain/planting/creditOrder.ts";
import type { InTurn } from "../../../providers/planting/partner.ts";
import type { PlantingOrder } from "../../../domain/planting/order.ts";

type ClaimingOrder = Pick<PlantingOrder, "id" | "partner" | "treeCount">;

const decideClaims = async (
  db: CommonQueryMethods,
  order: ClaimingOrder,
  records: readonly RecordedTrees[],
) => {
  const references = records.map(({ reference }) => reference);
  const own = await listClaims(db, order.id);
  const credited = await listCreditedTrees(db, order.partner, references);
  const claims = creditOrder(order, records, own, credited);
  const changes = claimChanges(own, claims);
  return { claims, changes, isChanged: changes.differences.length > 0 };
};

/**
 * Credits an order with trees of its partner's records that no other order has. Concurrent calls for one partner wait for
 * each other, except those that change nothing, which are most: claims that are stored already need no lock.
 * @param records are used up in this order
 * @param inTurn lets the changes of this process wait for each other without a connection
 * @returns all claims of the order
 */
export const claimTrees = async (
  { db }: { readonly db: DatabasePool },
  order: ClaimingOrder,
  records: readonly RecordedTrees[],
  inTurn: InTurn,
): Promise<readonly RecordedTrees[]> => {
  const unlocked = await decideClaims(db, order, records);
  if (!unlocked.isChanged) {
    return unlocked.claims;
  }
  return inTurn(() =>
    db.transaction(async (transaction) => {
      await lockClaims(transaction, order.partner);
      const { claims, changes, isChanged } = await decideClaims(transaction, order, records);
      if (isChanged) {
        await changeClaims(transaction, order.partner, order.id, changes);
      }
      return claims;
    }),
  );
};
