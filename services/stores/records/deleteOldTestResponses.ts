import type { DatabasePool } from "slonik";
import { deleteTestResponses } from "../../../db/stores/idempotentResponses.ts";
import { deleteInOrder } from "../../deleteInBatches.ts";

/**
 * Deletes the stored responses to test writes before a time, so that their idempotency keys can be used again. It may be
 * interrupted and repeated.
 * @returns the number of deleted responses
 */
export const deleteOldTestResponses = (
  db: DatabasePool,
  before: Date,
  signal: AbortSignal,
): Promise<number> =>
  deleteInOrder<Date>((limit, from) => deleteTestResponses(db, { from, before }, limit), signal);
