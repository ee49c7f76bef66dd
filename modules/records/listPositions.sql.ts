import type { FragmentSqlToken } from "slonik";
import { inMicroseconds, sql, timestamp } from "../../db/sql.ts";

/*
 * A page begins after the last record of the previous one, wherever that is meanwhile, so new records move no page.
 */

/** Where a page of a list ended. */
export type ListPosition = {
  /** With the microseconds of the database, which a Date does not hold. */
  readonly createdAt: string;
  /** Null if all records of that time are skipped. */
  readonly id: string | null;
};

export const positionOf = (row: {
  readonly id: string;
  readonly position: string;
}): ListPosition => ({ createdAt: row.position, id: row.id });

type ListedTable = "registration" | "donation";

/** Selects the time of creation as `position`, to the microsecond. */
export const positionColumn = (table: ListedTable) =>
  sql.fragment`${inMicroseconds(sql.identifier([table, "created_at"]))} AS position`;

const compare = (table: ListedTable, operator: FragmentSqlToken, position: ListPosition | null) => {
  if (position === null) {
    return sql.fragment`TRUE`;
  }
  const createdAt = sql.identifier([table, "created_at"]);
  const time = timestamp(position.createdAt);
  return position.id === null
    ? sql.fragment`${createdAt} ${operator} ${time}`
    : sql.fragment`(${createdAt}, ${sql.identifier([table, "id"])}) ${operator} (${time}, ${position.id}::uuid)`;
};

/** Returns the condition that a record follows a position in a list with the newest first. */
export const olderThan = (table: ListedTable, position: ListPosition | null) =>
  compare(table, sql.fragment`<`, position);

/** Returns the condition that a record follows a position in a list with the oldest first. */
export const newerThan = (table: ListedTable, position: ListPosition | null) =>
  compare(table, sql.fragment`>`, position);
