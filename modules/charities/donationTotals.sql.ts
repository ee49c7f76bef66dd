import type { CommonQueryMethods, DatabaseTransactionConnection, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { accountModeKey } from "../records/owner.rules.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { DonationTotals } from "./donations.rules.ts";
import { monthOf } from "../registrations/registrations.rules.ts";
import { nothing, safeInteger, sql, values } from "../../db/sql.ts";

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

/**
 * Defines queries that subtract donations from the all-time totals of their owners and from those of the months in which they
 * were recorded, as parts of a statement. `new_total` has the totals after it.
 * @param donations a table of them
 */
export const totalSubtractions = (donations: FragmentSqlToken): FragmentSqlToken => sql.fragment`
    uncounted AS MATERIALIZED (
      SELECT account_id, mode, period, count(*) AS count, sum(amount_cents)::bigint AS amount_cents
      FROM ${donations}
      CROSS JOIN LATERAL (VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))) AS span (period)
      GROUP BY account_id, mode, period
    ),
    locked_total AS MATERIALIZED (
      SELECT uncounted.*
      FROM uncounted
      JOIN donation_total USING (account_id, mode, period)
      -- In the order in which new donations lock them, so that the two cannot deadlock. Months begin with a digit.
      ORDER BY donation_total.account_id, donation_total.mode, donation_total.period
      FOR NO KEY UPDATE OF donation_total
    ),
    new_total AS (
      UPDATE donation_total
      SET
        count = donation_total.count - locked_total.count,
        amount_cents = donation_total.amount_cents - locked_total.amount_cents
      FROM locked_total
      WHERE donation_total.account_id = locked_total.account_id
        AND donation_total.mode = locked_total.mode
        AND donation_total.period = locked_total.period
      RETURNING donation_total.*
    )
  `;

/** The all-time counts that a statement returns as JSON, by `accountModeKey`. */
export const newCounts = sql.fragment`
  coalesce((SELECT json_object_agg(account_id || '/' || mode, count) FROM new_total WHERE period = 'all'), '{}')
`;

export const countsByOwner = z.record(z.string(), z.int());

const countRow = z.strictObject({ owner: z.string(), count: safeInteger });

/** Returns the all-time counts of owners by `accountModeKey`, of which a statement has returned some. */
export const readCounts = async (
  db: CommonQueryMethods,
  owners: readonly AccountMode[],
  known: Readonly<Record<string, number>>,
): Promise<ReadonlyMap<string, number>> => {
  const names = owners.map(accountModeKey).filter((name) => known[name] === undefined);
  if (names.length === 0) {
    return new Map(Object.entries(known));
  }
  const rows = await db.any(sql.prepared("read_donation_counts", countRow)`
    SELECT owner, coalesce(donation_total.count, 0) AS count
    FROM ${values([...new Set(names)])} AS owner
    LEFT JOIN donation_total
      ON account_id = split_part(owner, '/', 1)::uuid AND mode = split_part(owner, '/', 2) AND period = 'all'
  `);
  return new Map([
    ...Object.entries(known),
    ...rows.map(({ owner, count }) => [owner, count] as const),
  ]);
};

/** Subtracts donations from the totals. */
export const subtractDonations = async (
  transaction: DatabaseTransactionConnection,
  ids: readonly string[],
): Promise<void> => {
  const donations = sql.fragment`(SELECT * FROM donation WHERE id = ANY(${sql.array(ids, "uuid")})) AS donation`;
  await transaction.query(sql.prepared("subtract_donations", nothing)`
    WITH ${totalSubtractions(donations)}
    SELECT
  `);
};
