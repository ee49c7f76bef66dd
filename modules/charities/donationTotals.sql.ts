import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Donation, DonationTotals } from "./donations.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import { nothing, safeInteger, sql } from "../../db/sql.ts";
import { ownedBy } from "../records/ownedRecords.sql.ts";

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

/** A donation that is no longer counted. */
export type UncountedDonation = Pick<Donation, "createdAt" | "amountCents">;

/**
 * Defines queries that subtract donations from the all-time total and from those of the months in which they were recorded,
 * as parts of a statement. `new_total` has the totals after it.
 */
export const totalSubtractions = (
  { accountId, mode }: AccountMode,
  donations: readonly UncountedDonation[],
): FragmentSqlToken => {
  const sums = new Map<string, DonationTotals>();
  for (const { createdAt, amountCents } of donations) {
    for (const period of [monthOf(createdAt), "all"]) {
      const { count, amountCents: sum } = sums.get(period) ?? { count: 0, amountCents: 0 };
      sums.set(period, { count: count + 1, amountCents: sum + amountCents });
    }
  }
  const changes = [...sums].map(([period, { count, amountCents }]) => [period, count, amountCents]);
  const isOfOwner = sql.fragment`donation_total.account_id = ${accountId} AND donation_total.mode = ${mode}`;
  return sql.fragment`
    locked_total AS MATERIALIZED (
      SELECT donation_total.period, (value ->> 1)::bigint AS count, (value ->> 2)::bigint AS amount_cents
      FROM json_array_elements(${JSON.stringify(changes)}::json) AS value
      JOIN donation_total ON ${isOfOwner} AND donation_total.period = value ->> 0
      -- In the order in which new donations lock them, so that the two cannot deadlock. Months begin with a digit.
      ORDER BY donation_total.period
      FOR NO KEY UPDATE OF donation_total
    ),
    new_total AS (
      UPDATE donation_total
      SET
        count = donation_total.count - locked_total.count,
        amount_cents = donation_total.amount_cents - locked_total.amount_cents
      FROM locked_total
      WHERE ${isOfOwner} AND donation_total.period = locked_total.period
      RETURNING donation_total.period, donation_total.count
    )
  `;
};

/** Subtracts donations from the totals. */
export const subtractDonations = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  donations: readonly UncountedDonation[],
): Promise<void> => {
  await transaction.query(sql.prepared("subtract_donations", nothing)`
    WITH ${totalSubtractions(owner, donations)}
    SELECT
  `);
};
