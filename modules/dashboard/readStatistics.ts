import { listStatistics } from "./statistics.sql.ts";
import type { StatisticsQuery, StatisticsRow } from "./statistics.rules.ts";
import { rangeOf } from "./statistics.rules.ts";
import type { Context } from "../../runtime/context.ts";

/** What a client asks for. Without days it gets the latest ones. */
export type StatisticsRequest = Omit<StatisticsQuery, "range"> & {
  readonly from: string | null;
  readonly to: string | null;
};

export type Statistics = StatisticsQuery & { readonly rows: readonly StatisticsRow[] };

/**
 * Counts an organization's records by day or month. Without groups there is a row for every interval.
 * @throws DomainError request_invalid
 */
export const readStatistics = async (
  { db, clock }: Context,
  { from, to, ...request }: StatisticsRequest,
): Promise<Statistics> => {
  const today = clock.now().toISOString().slice(0, 10);
  const query = { ...request, range: rangeOf({ from, to }, request.interval, today) };
  return { ...query, rows: await listStatistics(db, query) };
};
