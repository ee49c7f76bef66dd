import { CheckIntegrityConstraintViolationError } from "slonik";
import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { Kind } from "../../domain/accounts/accounts.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Owner, Totals } from "../../domain/registrations/registrations.ts";
import { monthOf } from "../../domain/registrations/registrations.ts";
import { nothing, sql } from "../sql.ts";

/**
 * The refusal that a total beyond what JSON carries exactly is; other errors stay what they are.
 * @param constraint which CHECK keeps the total
 * @param field what the interface calls that which is added up
 */
export const asTotalRefusal = (
  error: unknown,
  constraint: "impact_total_safe" | "donation_total_safe",
  field: string,
): unknown =>
  error instanceof CheckIntegrityConstraintViolationError && error.constraint === constraint
    ? new DomainError(
        "request_invalid",
        `${field}: would take the account's total beyond ${Number.MAX_SAFE_INTEGER}`,
        { cause: error },
      )
    : error;

const totalsRow = z.strictObject({ all: z.bigint(), month: z.bigint() });

/** The owner's totals as of the instant's month; 0 where nothing is on record. */
export const readTotals = async (
  db: CommonQueryMethods,
  owner: Owner,
  instant: Date,
): Promise<Totals> => {
  const { all, month } = await db.one(sql.type(totalsRow)`
    SELECT
      coalesce(max(total) FILTER (WHERE period = 'all'), 0)::bigint AS "all",
      coalesce(max(total) FILTER (WHERE period <> 'all'), 0)::bigint AS month
    FROM impact_total
    WHERE account_id = ${owner.accountId}
      AND mode = ${owner.mode}
      AND kind = ${owner.kind}
      AND period IN ('all', ${monthOf(instant)})
  `);
  return { all: Number(all), month: Number(month) };
};

/** Takes refunded units out of the all-time total and the month in which they were registered. */
export const subtractFromTotals = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  registeredAt: Date,
  count: number,
): Promise<void> => {
  // In the order in which a batch of registrations locks them: 'all' comes after every month.
  for (const period of [monthOf(registeredAt), "all"]) {
    await transaction.query(sql.typeAlias("void")`
      UPDATE impact_total
      SET total = total - ${count}
      WHERE account_id = ${owner.accountId}
        AND mode = ${owner.mode}
        AND kind = ${owner.kind}
        AND period = ${period}
    `);
  }
};

const STORE_FIELDS: Readonly<Record<Kind, string>> = { tree: "trees", bottle: "bottles" };

/**
 * Adds units that stores newly registered to the all-time totals and the month's.
 * @throws DomainError request_invalid when a total leaves its range
 */
export const addToTotals = async (
  transaction: DatabaseTransactionConnection,
  added: readonly (Owner & { readonly count: number })[],
  registeredAt: Date,
): Promise<void> => {
  try {
    await transaction.query(sql.prepared("add_to_totals", nothing)`
      INSERT INTO impact_total (account_id, mode, kind, period, total)
      SELECT account_id, mode, kind, period, sum(count)
      FROM json_to_recordset(${JSON.stringify(
        added.map(({ accountId, mode, kind, count }) => ({
          account_id: accountId,
          mode,
          kind,
          count,
        })),
      )}) AS added (account_id uuid, mode text, kind text, count bigint)
      CROSS JOIN (VALUES ('all'), (${monthOf(registeredAt)})) AS span (period)
      GROUP BY account_id, mode, kind, period
      ORDER BY account_id, mode, kind, period
      ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
    `);
  } catch (error) {
    const [first] = added;
    // A refused batch is written again in parts: in the end a client is told of its own units alone.
    throw first === undefined
      ? error
      : asTotalRefusal(error, "impact_total_safe", STORE_FIELDS[first.kind]);
  }
};
