import type { DatabasePool } from "slonik";
import { Gate } from "../../runtime/gate.ts";
import { listClaims, listCreditedTrees, lockClaims, replaceClaims } from "./claims.sql.ts";
import { creditOrder } from "./creditOrder.rules.ts";
import type { RecordedTrees } from "./creditOrder.rules.ts";
import type { PlantingOrder } from "./order.rules.ts";

/** Calls wait for each other here. In the database, each would do so with a connection, and leave none for billing. */
const calls = new Gate({ places: 1, maximumWaitMs: Infinity });

/**
 * Credits an order with trees of its partner's records that no other order has. Concurrent calls for one partner wait for
 * each other.
 * @param records are used up in their order. A claim on another record is given up
 * @returns all claims of the order
 */
export const claimTrees = (
  { db }: { readonly db: DatabasePool },
  order: Pick<PlantingOrder, "id" | "partner" | "treeCount">,
  records: readonly RecordedTrees[],
  signal: AbortSignal,
): Promise<readonly RecordedTrees[]> =>
  calls.run(undefined, () => {
    signal.throwIfAborted();
    return db.transaction(async (transaction) => {
      await lockClaims(transaction, order.partner);
      const before = await listClaims(transaction, order.id);
      const references = records.map(({ reference }) => reference);
      const credited = await listCreditedTrees(transaction, order.partner, references);
      const claims = creditOrder(order, records, before, credited);
      if (claims !== before) {
        await replaceClaims(transaction, order.partner, order.id, claims);
      }
      return claims;
    });
  });
