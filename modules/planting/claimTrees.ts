import type { DatabasePool } from "slonik";
import { Gate } from "../../runtime/gate.ts";
import { creditOrder, lockClaims } from "./claims.sql.ts";
import type { RecordedTrees } from "./claims.sql.ts";
import type { PlantingOrder } from "./orders.sql.ts";

/** Calls wait for each other here. In the database, each would do so with a connection, and leave none for billing. */
const calls = new Gate({ places: 1, maximumWaitMs: Infinity });

/** As `creditOrder`. Concurrent calls for one partner wait for each other. */
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
      return creditOrder(transaction, order, records);
    });
  });
