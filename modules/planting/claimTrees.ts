import type { CommonQueryMethods, DatabasePool } from "slonik";
import { changeClaims, listClaims, listCreditedTrees, lockClaims } from "./claims.sql.ts";
import { claimChanges, creditOrder } from "./creditOrder.rules.ts";
import type { RecordedTrees } from "./creditOrder.rules.ts";
import type { Credited, InTurn } from "./partner.ts";
import type { PlantingOrder } from "./order.rules.ts";

type ClaimingOrder = Pick<PlantingOrder, "id" | "partner" | "treeCount">;

const decideClaims = async (
  db: CommonQueryMethods,
  order: ClaimingOrder,
  choose: (own: readonly RecordedTrees[]) => readonly RecordedTrees[],
) => {
  const own = await listClaims(db, order.id);
  const records = choose(own);
  const references = records.map(({ reference }) => reference);
  const credited = await listCreditedTrees(db, order.partner, references);
  const after = creditOrder(order, records, own, credited);
  const changes = claimChanges(own, after);
  return { credited: { before: own, after }, changes, isChanged: changes.differences.length > 0 };
};

/**
 * Credits an order with trees of its partner's records that no other order has. Concurrent calls for one partner wait for
 * each other, except those that change nothing, which are most: claims that are stored already need no lock.
 * @param choose returns the records, which are used up in their order. It is called with the order's claims of that moment,
 *   because a claim on a record that is not chosen is given up
 * @param inTurn lets the changes of this process wait for each other without a connection
 * @returns all claims of the order, before and after
 */
export const claimTrees = async (
  { db }: { readonly db: DatabasePool },
  order: ClaimingOrder,
  choose: (own: readonly RecordedTrees[]) => readonly RecordedTrees[],
  inTurn: InTurn,
): Promise<Credited> => {
  const unlocked = await decideClaims(db, order, choose);
  if (!unlocked.isChanged) {
    return unlocked.credited;
  }
  return inTurn(() =>
    db.transaction(async (transaction) => {
      await lockClaims(transaction, order.partner);
      const { credited, changes, isChanged } = await decideClaims(transaction, order, choose);
      if (isChanged) {
        await changeClaims(transaction, order.partner, order.id, changes);
      }
      return credited;
    }),
  );
};
