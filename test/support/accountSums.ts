import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import type { Owner } from "../../modules/records/owner.rules.ts";

const sumsRow = z.strictObject({
  registrations: z.bigint().transform(Number),
  registered: z.bigint(),
  refunded: z.bigint(),
  total: z.bigint(),
  facts: z.bigint().transform(Number),
  usage: z.bigint(),
});

/** Returns the sums of an account over all modes and kinds, each from its own table. */
export const readAccountSums = (db: DatabasePool, accountId: string) =>
  db.one(sql.type(sumsRow)`
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

/** Returns the units of a stream that the built-in ledger bills. */
export const sumLedgerUnits = (db: CommonQueryMethods, { accountId, mode, kind }: Owner) =>
  db.oneFirst(sql.type(z.strictObject({ units: z.bigint().transform(Number) }))`
    SELECT coalesce(sum(quantity), 0)::bigint AS units
    FROM meter_event
    WHERE account_id = ${accountId}
      AND mode = ${mode}
      AND kind = ${kind}
      AND processor = 'ledger'
      AND state = 'delivered'
  `);
