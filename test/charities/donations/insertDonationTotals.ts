import type { DatabasePool } from "slonik";
import { sql } from "../../../db/sql.ts";

/** Inserts the totals of an account whose donations a test has inserted without them. */
export const insertDonationTotals = async (db: DatabasePool, accountId: string): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO donation_total (account_id, mode, period, count, amount_cents)
    SELECT account_id, mode, period, count(*), sum(amount_cents)
    FROM donation
    CROSS JOIN LATERAL (
      VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))
    ) AS span (period)
    WHERE account_id = ${accountId} AND NOT refunded
    GROUP BY account_id, mode, period
  `);
};
