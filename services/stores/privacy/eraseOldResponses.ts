import type { DatabasePool } from "slonik";
import { eraseOldResponseBodies } from "../../../db/stores/idempotentResponses.ts";
import type { Clock } from "../../../domain/clock.ts";
import { daysBefore } from "../../../domain/durations.ts";
import { deleteInOrder } from "../../deleteInBatches.ts";

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
  const before = daysBefore(clock.now(), KEPT_DAYS);
  return deleteInOrder<Date>(
    (limit, from) => eraseOldResponseBodies(db, { from, before }, limit),
    signal,
  );
};
