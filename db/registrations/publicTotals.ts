import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Kind } from "../../domain/accounts/accounts.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

/**
 * Returns the units of all accounts' production keys, without refunded ones. A sum that exceeds a safe integer is
 * capped at the largest one.
 */
export const sumAllAccounts = (db: CommonQueryMethods, kind: Kind): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ total: safeInteger }))`
    SELECT least(coalesce(sum(total), 0), ${Number.MAX_SAFE_INTEGER})::bigint AS total
    FROM impact_total
    WHERE mode = 'live' AND kind = ${kind} AND period = 'all'
  `);

const periodRow = z.strictObject({ period: z.string(), tree: safeInteger, bottle: safeInteger });

/** Trees and bottles of an account's production keys in a period: a month in UTC, `YYYY-MM`, or `all`. */
export type PeriodTotals = Readonly<z.output<typeof periodRow>>;

/** Lists the all-time totals and those of the latest months that have any, newest first. */
export const listPeriodTotals = (
  db: CommonQueryMethods,
  accountId: string,
  months: number,
): Promise<readonly PeriodTotals[]> =>
  db.any(sql.type(periodRow)`
    SELECT
      period,
      coalesce(sum(total) FILTER (WHERE kind = 'tree'), 0)::bigint AS tree,
      coalesce(sum(total) FILTER (WHERE kind = 'bottle'), 0)::bigint AS bottle
    FROM impact_total
    WHERE account_id = ${accountId} AND mode = 'live'
    GROUP BY period
    ORDER BY period DESC
    LIMIT ${months + 1}
  `);
