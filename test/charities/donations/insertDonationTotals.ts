import type { DatabasePool } from "slonik";
import { sql } from "../../../db/sql.ts";

/** Inserts the totals of an account whose donations a test has inserted without them. */
export const insertDonationTotals = async (db: DatabasePool, accountId: string): Promise<void> => {
  await db.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, count, amount_cents)
    SELECT account_id, mode, count(*), sum(amount_cents)
    FROM donation
    WHERE account_id = ${accountId} AND NOT refunded
    GROUP BY account_id, mode
  `);
};
