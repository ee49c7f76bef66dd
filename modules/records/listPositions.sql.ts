import { inMicroseconds, sql, timestamp } from "../../db/sql.ts";
import type { RecordTable } from "./ownedRecords.sql.ts";

/* A page begins after the last record of the previous one, wherever that is meanwhile, so new records move no page. */

/** Where a page of a list ended: the time of a record, with the microseconds that a Date does not hold, and its id. */
export type ListPosition = { readonly position: string; readonly id: string };

export const positionColumn = (table: RecordTable) =>
  sql.fragment`${inMicroseconds(sql.identifier([table, "created_at"]))} AS position`;

/** Returns the condition that a record follows a position in a list with the newest first. */
export const olderThan = (table: RecordTable, after: ListPosition | null) =>
  after === null
    ? sql.fragment`TRUE`
    : sql.fragment`
        (${sql.identifier([table, "created_at"])}, ${sql.identifier([table, "id"])})
          < (${timestamp(after.position)}, ${after.id}::uuid)
      `;
