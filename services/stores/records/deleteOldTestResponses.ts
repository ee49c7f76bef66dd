import type { DatabasePool } from "slonik";
import { deleteTestResponses } from "../../../db/stores/idempotentResponses.ts";

/** Short statements, because the stores' writes use the table. */
const BATCH_RESPONSES = 1000;

/**
 * Deletes the stored responses to test writes before a time, so that their idempotency keys can be used again. It may be
 * interrupted and repeated.
 * @returns the number of deleted responses
 */
export const deleteOldTestResponses = async (
  db: DatabasePool,
  before: Date,
  signal: AbortSignal,
): Promise<number> => {
  let total = 0;
  for (let deleted = BATCH_RESPONSES; deleted === BATCH_RESPONSES;) {
    signal.throwIfAborted();
    deleted = await deleteTestResponses(db, before, BATCH_RESPONSES);
    total += deleted;
  }
  return total;
};
