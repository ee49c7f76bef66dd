import type { DatabasePool, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { safeInteger, sql, timestamp } from "../sql.ts";

/** How many rows a batch deleted, and the time of the last one in their order. */
export const deletedRow = z.strictObject({ deleted: safeInteger, last: z.date().nullable() });
export type Deleted = Readonly<z.output<typeof deletedRow>>;

/** Ends a statement whose part `deleted` returns the time of each row as `time`. */
export const countDeleted = sql.fragment`SELECT count(*) AS deleted, max(time) AS last FROM deleted`;

export type DeletedSpan = {
  /**
   * The time of the last row of an earlier batch; null for the first batch. It is in milliseconds, rounded down, so `>=`
   * reads rows of that millisecond again and skips none.
   */
  readonly from: Date | null;
  readonly before: Date;
};

export const startOf = ({ from }: DeletedSpan): FragmentSqlToken =>
  sql.fragment`coalesce(${timestamp(from)}, '-infinity')`;

/** Short statements, so that neither locks nor replication wait for one of them. */
const BATCH_SIZE = 1000;

/**
 * Deletes what is before a time, the oldest first, in batches. It may be interrupted and repeated. Each batch begins where
 * the last one ended. Otherwise it would read again what stays, and what was deleted, as long as a vacuum or an open snapshot
 * keeps the index entries.
 * @returns the number of deleted rows
 */
export const deleteBefore = async (
  deleteBatch: (db: DatabasePool, span: DeletedSpan, limit: number) => Promise<Deleted>,
  { db, before }: { readonly db: DatabasePool; readonly before: Date },
  signal: AbortSignal,
  batchSize = BATCH_SIZE,
): Promise<number> => {
  let total = 0;
  let batch: Deleted = { deleted: 0, last: null };
  do {
    signal.throwIfAborted();
    batch = await deleteBatch(db, { from: batch.last, before }, batchSize);
    total += batch.deleted;
  } while (batch.deleted > 0);
  return total;
};
