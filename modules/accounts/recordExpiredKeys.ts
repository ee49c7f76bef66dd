import { markExpiriesRecorded } from "./apiKeys.sql.ts";
import { SERVICE } from "./audit.rules.ts";
import type { Context } from "../../runtime/context.ts";
import { recordAction } from "./recordAction.ts";

const BATCH_SIZE = 100;

/**
 * Records in the audit log which keys have expired, each once. It may be interrupted and repeated. Expired keys are
 * invalid from their time on, whether or not this has run.
 * @returns the number of keys
 */
export const recordExpiredKeys = async (
  { db, clock }: Context,
  signal: AbortSignal,
): Promise<number> => {
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const now = clock.now();
    const expired = await db.transaction(async (transaction) => {
      const keys = await markExpiriesRecorded(transaction, now, BATCH_SIZE);
      for (const { id, accountId, expiresAt } of keys) {
        const details = { expiresAt };
        await recordAction(transaction, SERVICE, now, {
          action: "key.expire",
          accountId,
          subject: id,
          details,
        });
      }
      return keys.length;
    });
    total += expired;
    if (expired < BATCH_SIZE) {
      return total;
    }
  }
};
