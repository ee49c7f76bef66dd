import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { Kind } from "../../domain/accounts/accounts.ts";
import { safeInteger } from "../columns.ts";
import { sql } from "../sql.ts";

/**
 * All units of production keys on record, refunded ones left out. Accounts together may have more than a number carries
 * exactly; the most that it carries is told then.
 */
export const sumAllAccounts = (db: CommonQueryMethods, kind: Kind): Promise<number> =>
  db.oneFirst(sql.type(z.strictObject({ total: safeInteger }))`
    SELECT least(coalesce(sum(total), 0), ${Number.MAX_SAFE_INTEGER})::bigint AS total
    FROM impact_total
    WHERE mode = 'live' AND kind = ${kind} AND period = 'all'
  `);

const periodRow = z.strictObject({ period: z.string(), tree: safeInteger, bottle: safeInteger });

/** Trees and bottles of an account's production keys in one month, `YYYY-MM` in UTC, or in `all`. */
export type PeriodTotals = Readonly<z.output<typeof periodRow>>;

/** The all-time totals and those of the latest months that have any, newest first. */
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
