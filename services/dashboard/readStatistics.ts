import type { CommonQueryMethods } from "slonik";
import { listStatistics } from "../../db/dashboard/statistics.ts";
import type { Clock } from "../../domain/clock.ts";
import type { StatisticsQuery, StatisticsRow } from "../../domain/dashboard/statistics.ts";
import { rangeOf, withEmptyIntervals } from "../../domain/dashboard/statistics.ts";
import { dayIn } from "../../domain/timeZones.ts";
import { getAccount } from "../accounts/getAccount.ts";

/** What a client asks for. Without days it gets the latest ones, and without a time zone that of the organization. */
export type StatisticsRequest = Omit<StatisticsQuery, "range" | "timeZone"> & {
  readonly from: string | null;
  readonly to: string | null;
  readonly timeZone: string | null;
};

export type Statistics = StatisticsQuery & { readonly rows: readonly StatisticsRow[] };

/**
 * Counts an organization's records by day or month. Without groups there is a row for every interval.
 * @throws DomainError request_invalid
 */
export const readStatistics = async (
  { db, clock }: { readonly db: CommonQueryMethods; readonly clock: Clock },
  { from, to, ...request }: StatisticsRequest,
): Promise<Statistics> => {
  const timeZone = request.timeZone ?? (await getAccount(db, request.accountId)).timeZone ?? "UTC";
  const range = rangeOf({ from, to }, request.interval, dayIn(timeZone, clock.now()));
  const query = { ...request, range, timeZone };
  const rows = await listStatistics(db, query);
  return { ...query, rows: query.grouping === null ? withEmptyIntervals(rows, query) : rows };
};
