import type { DatabasePool } from "slonik";
import { eraseOldResponseBodies } from "../../../db/stores/idempotentResponses.ts";
import type { Clock } from "../../../domain/clock.ts";
import { deleteInOrder } from "../../deleteInBatches.ts";

const DAY_MS = 24 * 60 * 60 * 1000;
/** Longer than any client retries. */
const KEPT_DAYS = 30;

/**
 * Erases the bodies of stored responses that may name customers, 30 days after the write. What remains, the hash of the
 * request, is enough for a replay. It may be interrupted and repeated.
 * @returns the number of erased bodies
 */
export const eraseOldResponses = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  signal: AbortSignal,
): Promise<number> => {
  const before = new Date(clock.now().getTime() - KEPT_DAYS * DAY_MS);
  return deleteInOrder<Date>(
    (limit, from) => eraseOldResponseBodies(db, { from, before }, limit),
    signal,
  );
};
