import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { DonationTotals } from "./donations.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";
import { ownedBy } from "../records/ownedRecords.sql.ts";
import { asTotalError } from "../registrations/totals.sql.ts";

const totalsRow = z
  .strictObject({
    allCount: safeInteger,
    allCents: safeInteger,
    monthCount: safeInteger,
    monthCents: safeInteger,
  })
  .transform(({ allCount, allCents, monthCount, monthCents }) => ({
    all: { count: allCount, amountCents: allCents },
    month: { count: monthCount, amountCents: monthCents },
  }));

/** Returns the all-time totals and those of the UTC month that contains `time`. */
export const readDonationTotals = (
  db: CommonQueryMethods,
  owner: AccountMode,
  time: Date,
): Promise<{ readonly all: DonationTotals; readonly month: DonationTotals }> =>
  db.one(sql.prepared("read_donation_totals", totalsRow)`
    SELECT
      coalesce(max(count) FILTER (WHERE period = 'all'), 0)::bigint AS "allCount",
      coalesce(max(amount_cents) FILTER (WHERE period = 'all'), 0)::bigint AS "allCents",
      coalesce(max(count) FILTER (WHERE period <> 'all'), 0)::bigint AS "monthCount",
      coalesce(max(amount_cents) FILTER (WHERE period <> 'all'), 0)::bigint AS "monthCents"
    FROM donation_total
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND period IN ('all', ${monthOf(time)})
  `);

const monthRow = z.strictObject({ month: z.string(), count: safeInteger });

/** Lists the UTC months in which an owner's donations were recorded, newest first. The counts include refunded donations. */
export const listDonationMonths = (
  db: CommonQueryMethods,
  owner: AccountMode,
): Promise<readonly Readonly<z.output<typeof monthRow>>[]> =>
  db.any(sql.type(monthRow)`
    WITH refunded AS (
      SELECT date_trunc('month', created_at AT TIME ZONE 'UTC') AS month, count(*) AS count
      FROM donation
      WHERE ${ownedBy("donation", owner)} AND refunded
      GROUP BY 1
    )
    SELECT month, sum(count)::bigint AS count
    FROM (
      SELECT period AS month, count
      FROM donation_total
      WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND period <> 'all'
      UNION ALL
      SELECT to_char(month, 'YYYY-MM'), count FROM refunded
    ) AS counted
    GROUP BY month
    HAVING sum(count) > 0
    ORDER BY month DESC
  `);

type TotaledDonation = { readonly createdAt: Date; readonly amountCents: number };

/** Returns what donations change: each month in which they were recorded, and then the all-time total. */
const sumByPeriod = (
  donations: readonly TotaledDonation[],
): readonly (DonationTotals & { readonly period: string })[] => {
  const sums = new Map<string, DonationTotals>();
  for (const { createdAt, amountCents } of donations) {
    for (const period of [monthOf(createdAt), "all"]) {
      const { count, amountCents: sum } = sums.get(period) ?? { count: 0, amountCents: 0 };
      sums.set(period, { count: count + 1, amountCents: sum + amountCents });
    }
  }
  // Always in this order, so that concurrent changes cannot deadlock. Months begin with a digit.
  return [...sums]
    .toSorted(([one], [two]) => (one < two ? -1 : 1))
    .map(([period, { count, amountCents }]) => ({ period, count, amountCents }));
};

/**
 * Adds donations to the all-time total and to those of the months in which they were recorded, or subtracts them.
 * @throws DomainError request_invalid if a total would exceed 2^53 - 1
 */
export const changeDonationTotals = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  donations: readonly TotaledDonation[],
  change: "add" | "subtract",
): Promise<void> => {
  try {
    for (const { period, count, amountCents } of sumByPeriod(donations)) {
      await transaction.query(
        change === "add"
          ? sql.typeAlias("void")`
            INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
            VALUES (${owner.accountId}, ${owner.mode}, ${period}, ${count}, ${amountCents})
            ON CONFLICT (account_id, mode, period) DO UPDATE
            SET
              count = donation_total.count + excluded.count,
              amount_cents = donation_total.amount_cents + excluded.amount_cents
          `
          : sql.typeAlias("void")`
            UPDATE donation_total
            SET count = count - ${count}, amount_cents = amount_cents - ${amountCents}
            WHERE account_id = ${owner.accountId} AND mode = ${owner.mode} AND period = ${period}
          `,
      );
    }
  } catch (error) {
    throw asTotalError(error, "donation_total_safe", "amount_cents");
  }
};
