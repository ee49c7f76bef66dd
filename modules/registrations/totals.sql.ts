import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { monthOf } from "./registrations.rules.ts";
import { violates } from "../../db/databaseErrors.ts";
import { safeInteger, sql } from "../../db/sql.ts";

/**
 * Converts the violation of a total's CHECK constraint to a DomainError and returns other errors unchanged.
 * @param field the request field whose value is added to the total
 */
export const asTotalError = (
  cause: unknown,
  constraint: "impact_total_safe" | "donor_total_safe",
  field: string,
): unknown =>
  violates(cause, constraint)
    ? invalidRequest(
        `${field}: would increase the account's total to more than ${Number.MAX_SAFE_INTEGER}`,
        { cause },
      )
    : cause;

export const totalColumns = { all: safeInteger, month: safeInteger };

/** The owner's all-time total and that of the time's month, as a table of one row. */
export const totalsOf = (owner: Owner, time: Date) => sql.fragment`
  (
    SELECT
      coalesce(max(total) FILTER (WHERE period = 'all'), 0)::bigint AS "all",
      coalesce(max(total) FILTER (WHERE period <> 'all'), 0)::bigint AS month
    FROM impact_total
    WHERE account_id = ${owner.accountId}
      AND mode = ${owner.mode}
      AND kind = ${owner.kind}
      AND period IN ('all', ${monthOf(time)})
  ) AS totals
`;

const totalsRow = z.strictObject(totalColumns);

export const readTotals = (db: CommonQueryMethods, owner: Owner, time: Date) =>
  db.one(sql.prepared("read_totals", totalsRow)`
    SELECT totals."all", totals.month FROM ${totalsOf(owner, time)}
  `);

/**
 * A query of the sums of units by their owners, for all time and for the month of each.
 * @param units a table with `account_id`, `mode`, `kind`, `count` and `created_at`, that of the registration
 */
export const sumsOf = (units: FragmentSqlToken) => sql.fragment`
  SELECT account_id, mode, kind, period, sum(count)::bigint AS count
  FROM ${units}
  CROSS JOIN LATERAL (VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))) AS span (period)
  GROUP BY account_id, mode, kind, period
`;

/** Defines the query `new_total`, which adds sums to the totals of their owners, and has these afterwards. */
export const totalAdditions = (sums: FragmentSqlToken) => sql.fragment`
  new_total AS (
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    ${sums}
    -- As every change of totals, so that concurrent ones cannot deadlock.
    ORDER BY account_id, mode, kind, period
    ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
    RETURNING account_id, mode, kind, period, total
  )
`;

/**
 * The same for refunded units. It comes last in a transaction: registrations of these owners, and in a batch those of
 * others, wait for these rows.
 */
export const totalSubtractions = (sums: FragmentSqlToken) => sql.fragment`
  locked_total AS MATERIALIZED (
    SELECT impact_total.account_id, impact_total.mode, impact_total.kind, impact_total.period, refunded.count
    FROM (${sums}) AS refunded
    JOIN impact_total USING (account_id, mode, kind, period)
    ORDER BY impact_total.account_id, impact_total.mode, impact_total.kind, impact_total.period
    FOR NO KEY UPDATE OF impact_total
  ),
  new_total AS (
    UPDATE impact_total
    SET total = impact_total.total - locked_total.count
    FROM locked_total
    WHERE (impact_total.account_id, impact_total.mode, impact_total.kind, impact_total.period)
      = (locked_total.account_id, locked_total.mode, locked_total.kind, locked_total.period)
    RETURNING impact_total.*
  )
`;

const kindTotals = { tree: safeInteger, bottle: safeInteger } satisfies Record<Kind, z.ZodType>;

const periodRow = z.strictObject({ period: z.string(), ...kindTotals });

export const listPeriodTotals = (
  db: CommonQueryMethods,
  accountId: string,
  periods: readonly string[],
) =>
  db.any(sql.prepared("list_period_totals", periodRow)`
    SELECT
      period,
      ${sql.join(
        KINDS.map(
          (kind) => sql.fragment`
            coalesce(sum(total) FILTER (WHERE kind = ${kind}), 0)::bigint AS ${sql.identifier([kind])}
          `,
        ),
        sql.fragment`, `,
      )}
    FROM impact_total
    WHERE account_id = ${accountId} AND mode = 'live' AND period = ANY(${sql.array([...periods], "text")})
    GROUP BY period
  `);
