import { CheckIntegrityConstraintViolationError } from "slonik";
import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS, ownerKey } from "../records/owner.rules.ts";
import { ownerColumns } from "../records/columns.sql.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { Totals } from "./registrations.rules.ts";
import { monthOf } from "./registrations.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";

/**
 * Converts the violation of a total's CHECK constraint to a DomainError and returns other errors unchanged.
 * @param field the request field whose value is added to the total
 */
export const asTotalError = (
  error: unknown,
  constraint: "impact_total_safe" | "donor_total_safe",
  field: string,
): unknown =>
  error instanceof CheckIntegrityConstraintViolationError && error.constraint === constraint
    ? invalidRequest(
        `${field}: would increase the account's total to more than ${Number.MAX_SAFE_INTEGER}`,
        { cause: error },
      )
    : error;

export const totalColumns = { all: safeInteger, month: safeInteger };

/** The owner's all-time total and that of the time's month, as a table of one row. */
export const totalsOf = (owner: Owner, time: Date): FragmentSqlToken => sql.fragment`
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

export const readTotals = (db: CommonQueryMethods, owner: Owner, time: Date): Promise<Totals> =>
  db.one(sql.prepared("read_totals", totalsRow)`
    SELECT totals."all", totals.month FROM ${totalsOf(owner, time)}
  `);

/** Units as rows with the month of a time, of each owner and period. */
const unitRows = (
  units: readonly (Owner & { readonly count: number; readonly time: Date | string })[],
): FragmentSqlToken => sql.fragment`
  json_to_recordset(${JSON.stringify(
    units.map(({ accountId, mode, kind, count, time }) => ({
      account_id: accountId,
      mode,
      kind,
      count,
      month: monthOf(time),
    })),
  )}::json) AS given (account_id uuid, mode text, kind text, count bigint, month text)
  CROSS JOIN LATERAL (VALUES ('all'), (given.month)) AS span (period)
`;

/** Units of a registration that are refunded. */
type RefundedUnits = { readonly registeredAt: Date; readonly count: number };

const ownerTotalRow = z.strictObject({ ...ownerColumns, total: safeInteger });

/**
 * Subtracts refunded units, and returns the owners' all-time totals after it by `ownerKey`. It comes last in a transaction:
 * registrations of the owners wait for these rows, and in a batch with them those of other accounts.
 */
export const subtractFromTotalsOfOwners = async (
  transaction: DatabaseTransactionConnection,
  refunded: readonly (Owner & RefundedUnits)[],
): Promise<ReadonlyMap<string, number>> => {
  const rows = await transaction.any(sql.prepared("subtract_from_totals", ownerTotalRow)`
    WITH
      refunded AS MATERIALIZED (
        SELECT account_id, mode, kind, period, sum(count)::bigint AS count
        FROM ${unitRows(refunded.map(({ registeredAt, ...units }) => ({ ...units, time: registeredAt })))}
        GROUP BY account_id, mode, kind, period
      ),
      -- In the order in which a batch of registrations locks them.
      locked AS MATERIALIZED (
        SELECT impact_total.account_id, impact_total.mode, impact_total.kind, impact_total.period, refunded.count
        FROM refunded
        JOIN impact_total USING (account_id, mode, kind, period)
        ORDER BY impact_total.account_id, impact_total.mode, impact_total.kind, impact_total.period
        FOR NO KEY UPDATE OF impact_total
      ),
      subtracted AS (
        UPDATE impact_total
        SET total = impact_total.total - locked.count
        FROM locked
        WHERE impact_total.account_id = locked.account_id
          AND impact_total.mode = locked.mode
          AND impact_total.kind = locked.kind
          AND impact_total.period = locked.period
        RETURNING impact_total.*
      )
    SELECT account_id AS "accountId", mode, kind, total
    FROM subtracted
    WHERE period = 'all'
  `);
  return new Map(rows.map(({ total, ...owner }) => [ownerKey(owner), total]));
};

/** Defines a query that adds units of stores to the all-time totals and those of their months, as a part of a statement. */
export const totalAdditions = (
  added: readonly (Owner & { readonly count: number; readonly createdAt: string })[],
): FragmentSqlToken => sql.fragment`
  added_total AS (
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT account_id, mode, kind, period, sum(count)
    FROM ${unitRows(added.map(({ createdAt, ...units }) => ({ ...units, time: createdAt })))}
    GROUP BY account_id, mode, kind, period
    ORDER BY account_id, mode, kind, period
    ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
  )
`;

const kindTotals = { tree: safeInteger, bottle: safeInteger } satisfies Record<Kind, z.ZodType>;

const periodRow = z.strictObject({ period: z.string(), ...kindTotals });

/** The units of each kind of an account's production keys in a period: a month in UTC, `YYYY-MM`, or `all`. */
type PeriodTotals = Readonly<z.output<typeof periodRow>>;

/** Lists the all-time totals and those of the latest months that have any, newest first. */
export const listPeriodTotals = (
  db: CommonQueryMethods,
  accountId: string,
  months: number,
): Promise<readonly PeriodTotals[]> =>
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
    WHERE account_id = ${accountId} AND mode = 'live'
    GROUP BY period
    ORDER BY period DESC
    LIMIT ${months + 1}
  `);
