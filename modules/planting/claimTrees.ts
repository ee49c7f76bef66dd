import type { CommonQueryMethods, DatabasePool } from "slonik";
import { Gate } from "../../runtime/gate.ts";
import { listClaims, listCreditedTrees, lockClaims, replaceClaims } from "./claims.sql.ts";
import { creditOrder, isSameClaims } from "./creditOrder.rules.ts";
import type { RecordedTrees } from "./creditOrder.rules.ts";
import type { Claims } from "./partner.ts";
import type { PlantingOrder } from "./order.rules.ts";

/** Changes of claims wait for each other. Each would do so with a connection, and leave none for billing. */
const changes = new Gate({ places: 1, maximumWaitMs: Infinity });

/**
 * Credits an order with trees of its partner's records that no other order has. Concurrent calls for one partner wait for
 * each other, except those that change nothing, which are most: claims that are stored already need no lock.
 * @param choose returns the records, which are used up in their order. It is called with the order's claims of that moment,
 *   because a claim on a record that is not chosen is given up
 * @returns all claims of the order
 */
export const claimTrees = async (
  { db }: { readonly db: DatabasePool },
  order: Pick<PlantingOrder, "id" | "partner" | "treeCount">,
  choose: Parameters<Claims["claimTrees"]>[0],
  signal: AbortSignal,
): Promise<readonly RecordedTrees[]> => {
  const decide = async (connection: CommonQueryMethods) => {
    const before = await listClaims(connection, order.id);
    const records = choose(before);
    const credited = await listCreditedTrees(
      connection,
      order.partner,
      records.map(({ reference }) => reference),
    );
    const claims = creditOrder(order, records, before, credited);
    return { claims, isChanged: !isSameClaims(before, claims) };
  };
  const { claims, isChanged } = await decide(db);
  return isChanged
    ? changes.run(undefined, () => {
        signal.throwIfAborted();
        return db.transaction(async (transaction) => {
          await lockClaims(transaction, order.partner);
          const locked = await decide(transaction);
          await replaceClaims(transaction, order.partner, order.id, locked.claims);
          return locked.claims;
        });
      })
    : claims;
};
