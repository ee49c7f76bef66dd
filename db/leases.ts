import type { FragmentSqlToken } from "slonik";
import { sql, timestamp } from "./sql.ts";

/** A time during which no other process works on a row. It expires if the process that acquired it dies. */
export type Lease = { readonly now: Date; readonly until: Date };

/**
 * Returns the condition that a row's lease is free. A lease that would last more than twice the length of a new one was
 * acquired before the clock was set back, so it is ignored; the clocks of two machines differ by less.
 */
export const isLeaseFree = (
  leasedUntil: FragmentSqlToken,
  { now, until }: Lease,
): FragmentSqlToken => {
  const latestMs = 2 * until.getTime() - now.getTime();
  return sql.fragment`(
    ${leasedUntil} IS NULL
    OR ${leasedUntil} <= ${timestamp(now)}
    OR ${leasedUntil} > ${timestamp(new Date(latestMs))}
  )`;
};
