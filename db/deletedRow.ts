import { z } from "zod";
import type { FragmentSqlToken } from "slonik";
import { safeInteger, sql, timestamp } from "./sql.ts";

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
