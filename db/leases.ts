import type { FragmentSqlToken } from "slonik";
import { sql } from "./sql.ts";

/** A span of time in which others keep away from a row, whatever becomes of the process that took it. */
export type Lease = { readonly now: Date; readonly until: Date };

/**
 * The condition that nobody holds a row's lease. One that ends more than twice a new one's length from now was taken
 * before a clock was set back, and holds nobody up; clocks of two machines differ by less.
 */
export const isLeaseOver = (
  leasedUntil: FragmentSqlToken,
  { now, until }: Lease,
): FragmentSqlToken => {
  const latestMs = 2 * until.getTime() - now.getTime();
  return sql.fragment`(
    ${leasedUntil} IS NULL
    OR ${leasedUntil} <= ${now.toISOString()}
    OR ${leasedUntil} > ${new Date(latestMs).toISOString()}
  )`;
};
