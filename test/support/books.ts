import type { DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

const booksRow = z.strictObject({
  registrations: z.bigint().transform(Number),
  registered: z.bigint(),
  refunded: z.bigint(),
  total: z.bigint(),
  facts: z.bigint().transform(Number),
  usage: z.bigint(),
});

/** What stands in the database for an account, all modes and kinds together, each sum from its own table. */
export const readBooks = (
  db: DatabasePool,
  accountId: string,
): Promise<Readonly<z.output<typeof booksRow>>> =>
  db.one(sql.type(booksRow)`
    SELECT
      (SELECT count(*) FROM registration WHERE account_id = ${accountId}) AS registrations,
      (SELECT coalesce(sum(count), 0)::bigint FROM registration WHERE account_id = ${accountId}) AS registered,
      (SELECT coalesce(sum(refunded_count), 0)::bigint FROM registration WHERE account_id = ${accountId}) AS refunded,
      (
        SELECT coalesce(sum(total), 0)::bigint FROM impact_total WHERE account_id = ${accountId} AND period = 'all'
      ) AS total,
      (SELECT count(*) FROM usage_fact WHERE account_id = ${accountId}) AS facts,
      (SELECT coalesce(sum(quantity), 0)::bigint FROM usage_fact WHERE account_id = ${accountId}) AS usage
  `);
