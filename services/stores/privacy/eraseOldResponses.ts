import type { DatabasePool } from "slonik";
import { eraseOldResponseBodies } from "../../../db/stores/idempotentResponses.ts";
import type { Clock } from "../../../domain/clock.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** Longer than any client retries. */
const KEPT_DAYS = 30;
/** Short statements, because the stores' writes use the table. */
const BATCH_RESPONSES = 1000;

/**
 * Erases the bodies of stored responses that may name customers, 30 days after the write. What remains, the hash of the
 * request, is enough for a replay. It may be interrupted and repeated.
 * @returns the number of erased bodies
 */
export const eraseOldResponses = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  signal: AbortSignal,
): Promise<number> => {
  const before = new Date(clock.now().getTime() - KEPT_DAYS * DAY_MS);
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const erased = await eraseOldResponseBodies(db, before, BATCH_RESPONSES);
    if (erased === 0) {
      return total;
    }
    total += erased;
  }
};
