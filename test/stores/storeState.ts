import type { DatabasePool } from "slonik";
import { z } from "zod";
import { safeInteger, sql } from "../../db/sql.ts";

const stateRow = z.strictObject({
  balance: safeInteger,
  entries: safeInteger,
  entrySum: safeInteger,
  lastBalance: safeInteger.nullable(),
  brokenLinks: safeInteger,
  registrations: safeInteger,
  remaining: safeInteger,
  totals: safeInteger,
  facts: safeInteger,
  responses: safeInteger,
});

/** Reads a store's rows of both modes, each sum from its own table. */
export const readStoreState = (db: DatabasePool, id: string) =>
  db.one(sql.type(stateRow)`
    SELECT
      (SELECT balance_cents FROM store WHERE account_id = ${id}) AS balance,
      (SELECT count(*) FROM balance_entry WHERE account_id = ${id}) AS entries,
      (SELECT coalesce(sum(amount_cents), 0)::bigint FROM balance_entry WHERE account_id = ${id}) AS "entrySum",
      (
        SELECT balance_cents FROM balance_entry WHERE account_id = ${id} ORDER BY balance_entry.id DESC LIMIT 1
      ) AS "lastBalance",
      (
        SELECT count(*)
        FROM (
          SELECT
            balance_cents,
            amount_cents,
            coalesce(lag(balance_cents) OVER (ORDER BY balance_entry.id), 0) AS earlier
          FROM balance_entry
          WHERE account_id = ${id}
        ) AS entry
        WHERE balance_cents <> earlier + amount_cents
      ) AS "brokenLinks",
      (SELECT count(*) FROM registration WHERE account_id = ${id}) AS registrations,
      (
        SELECT coalesce(sum(count - refunded_count), 0)::bigint FROM registration WHERE account_id = ${id}
      ) AS remaining,
      (
        SELECT coalesce(sum(total), 0)::bigint FROM impact_total WHERE account_id = ${id} AND period = 'all'
      ) AS totals,
      (SELECT count(*) FROM usage_fact WHERE account_id = ${id}) AS facts,
      (SELECT count(*) FROM idempotency_key WHERE account_id = ${id}) AS responses
  `);

const eventRow = z.strictObject({
  type: z.string(),
  mode: z.string(),
  data: z.looseObject({ balance_cents: z.int() }),
});

/** Lists the events of a store's balance, oldest first. */
export const listBalanceEvents = (db: DatabasePool, storeId: string) =>
  db.any(sql.type(eventRow)`
    SELECT type, mode, data
    FROM event
    WHERE account_id = ${storeId} AND type LIKE 'balance.%'
    ORDER BY transaction_id, id
  `);

/** A charity of the catalogue. */
export const EIN = "530196605";
