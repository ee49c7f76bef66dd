import type { FragmentSqlToken } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../sql.ts";

/** How many rows a batch deleted or erased, and the time of the last one in their order. */
export const deletedRow = z.strictObject({ deleted: safeInteger, last: z.date().nullable() });
export type Deleted = Readonly<z.output<typeof deletedRow>>;

/** Ends a statement whose part `deleted` returns the time of each row as `time`. */
export const countDeleted = sql.fragment`SELECT count(*) AS deleted, max(time) AS last FROM deleted`;

/**
 * Returns the time from which a batch deletes.
 * @param last the time of the last row of an earlier batch; null for the first batch. It is in milliseconds, rounded down, so
 *   `>=` reads rows of that millisecond again and skips none.
 */
export const startingAt = (last: Date | null): FragmentSqlToken =>
  sql.fragment`coalesce(${timestamp(last)}, '-infinity')`;

/** Short statements, so that neither locks nor replication wait for one of them. */
const BATCH_SIZE = 1000;

/**
 * Repeats a deletion until it finds nothing more. It may be interrupted and repeated. Each batch begins where the last one ended. Otherwise it
 * would read again what stays, and what was deleted, as long as a vacuum or an open snapshot keeps the index entries.
 * @param deleteBatch deletes up to `limit` rows from a place on; null for the first batch
 * @returns the number of deleted rows
 */
export const deleteInOrder = async <Place>(
  deleteBatch: (
    limit: number,
    from: Place | null,
  ) => Promise<{ readonly deleted: number; readonly last: Place | null }>,
  signal: AbortSignal,
  batchSize = BATCH_SIZE,
): Promise<number> => {
  let total = 0;
  let from: Place | null = null;
  for (;;) {
    signal.throwIfAborted();
    const { deleted, last } = await deleteBatch(batchSize, from);
    if (deleted === 0) {
      return total;
    }
    total += deleted;
    from = last;
  }
};
