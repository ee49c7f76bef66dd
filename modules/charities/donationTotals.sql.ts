import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import type { AccountMode } from "../records/owner.rules.ts";
import { safeInteger, sql } from "../../db/sql.ts";

const totalsRow = z.strictObject({ count: safeInteger, amountCents: safeInteger });

/** Returns the number and sum of the donations that are not refunded. */
export const readDonationTotals = async (db: CommonQueryMethods, owner: AccountMode) =>
  (await db.maybeOne(sql.prepared("read_donation_totals", totalsRow)`
    SELECT count, amount_cents AS "amountCents"
    FROM donor
    WHERE account_id = ${owner.accountId} AND mode = ${owner.mode}
  `)) ?? { count: 0, amountCents: 0 };

/** Defines the query `new_donor`, which adds a table of donations to the totals of their owners, and has those after it. */
export const totalAdditions = (donations: FragmentSqlToken) => sql.fragment`
    new_donor AS (
      INSERT INTO donor (account_id, mode, count, amount_cents)
      SELECT account_id, mode, count(*), sum(amount_cents)::bigint
      FROM ${donations}
      GROUP BY account_id, mode
      -- As every change of totals, so that concurrent ones cannot deadlock.
      ORDER BY account_id, mode
      ON CONFLICT (account_id, mode) DO UPDATE
      SET count = donor.count + excluded.count, amount_cents = donor.amount_cents + excluded.amount_cents
      RETURNING account_id, mode, count
    )
  `;

/** The same for donations that are subtracted. */
export const totalSubtractions = (donations: FragmentSqlToken) => sql.fragment`
    locked_donor AS MATERIALIZED (
      SELECT donor.account_id, donor.mode, uncounted.count, uncounted.amount_cents
      FROM (
        SELECT account_id, mode, count(*) AS count, sum(amount_cents)::bigint AS amount_cents
        FROM ${donations}
        GROUP BY account_id, mode
      ) AS uncounted
      JOIN donor USING (account_id, mode)
      ORDER BY donor.account_id, donor.mode
      FOR NO KEY UPDATE OF donor
    ),
    new_donor AS (
      UPDATE donor
      SET count = donor.count - locked_donor.count, amount_cents = donor.amount_cents - locked_donor.amount_cents
      FROM locked_donor
      WHERE donor.account_id = locked_donor.account_id AND donor.mode = locked_donor.mode
      RETURNING donor.count
    )
  `;
