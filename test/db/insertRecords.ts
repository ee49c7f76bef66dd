import type { DatabasePool } from "slonik";
import { sql } from "../../db/sql.ts";
import { insertTestKeys } from "../support/insertTestKeys.ts";

/** The listing of so many registrations has 170 pages, and they themselves have 600. */
const RECORDS = 20_000;

/** Inserts many records of an account, of which each has its own values. */
export const insertRecords = async (
  filler: DatabasePool,
  accountId: string,
  { from = 1, to = RECORDS } = {},
): Promise<void> => {
  const isNew = sql.fragment`
    account_id = ${accountId} AND created_at BETWEEN '2026-11-01'::timestamptz - ${to} * interval '1 second'
      AND '2026-11-01'::timestamptz - ${from} * interval '1 second'
  `;
  const columns = sql.fragment`
    id, account_id, mode, created_at, idempotency_key, attribution, imported_id, customer_name, customer_email,
    customer_id, order_id
  `;
  const values = sql.fragment`
    -- As of imported records, whose ids have version 8.
    overlay(gen_random_uuid()::text PLACING '8' FROM 15)::uuid, ${accountId}, 'live', '2026-11-01'::timestamptz - number * interval '1 second', 'key-' || number, 'campaign-' || number,
    CASE WHEN number % 2 = 0 THEN 'old-' || number END, md5(number::text), CASE WHEN number > 1 THEN number || '@example.com' END,
    CASE WHEN number > 1 THEN 'customer-' || number END, '#' || number
  `;
  const numbers = sql.fragment`generate_series(${from}::integer, ${to}::integer) AS number`;
  // In many transactions, because a page of the feed reads all of its last one.
  for (let first = from; first <= to; first += 200) {
    await filler.query(sql.typeAlias("void")`
      INSERT INTO registration (${columns}, kind, count, usage_batch, unit_price_cents)
      SELECT ${values}, 'tree', 1, nextval('usage_batch'), CASE WHEN number % 2 = 0 THEN 50 END
      FROM generate_series(${first}::integer, ${Math.min(first + 199, to)}::integer) AS number
    `);
  }
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donation (${columns}, amount_cents, nonprofit_id, charity_provider, charity_name)
    SELECT ${values}, 100, 'charity', 'catalogue', 'Charity' FROM ${numbers}
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO meter_event
      (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
    SELECT
      account_id, mode, kind, extract(epoch FROM created_at)::bigint, 1, 1, id::text, 'ledger', 'delivered', now(), now()
    FROM registration
    WHERE ${isNew}
  `);
  // Half of them are sealed.
  await filler.query(sql.typeAlias("void")`
    INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
    SELECT
      meter_event.account_id, meter_event.mode, meter_event.kind, usage_batch, 1, second,
      CASE WHEN second % 2 = 0 THEN meter_event.id END
    FROM meter_event
    JOIN (SELECT * FROM registration WHERE ${isNew}) AS registration ON registration.id = meter_event.identifier::uuid
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, reference, created_at)
    SELECT ${accountId}, 'topup', 1, number, 'invoice-' || number, now() FROM ${numbers}
  `);
  await filler.query(sql.typeAlias("void")`
    WITH refunded AS (
      SELECT * FROM registration WHERE ${isNew} AND imported_id IS DISTINCT FROM 'old-2'
    ),
    new_refund AS (
      INSERT INTO refund (id, registration_id, account_id, count, reason, created_at, dispatched_at)
      SELECT gen_random_uuid(), id, account_id, 1, 'reason', created_at, created_at FROM refunded
    ),
    new_entry AS (
      INSERT INTO balance_entry (account_id, kind, amount_cents, balance_cents, created_at)
      SELECT account_id, 'refund', 1, 1, created_at FROM refunded
    )
    INSERT INTO idempotency_key (
      key_hash, account_id, mode, operation, request_hash, response_body, record_id, created_at
    )
    SELECT sha256(id::text::bytea), account_id, mode, 'refund', sha256(id::text::bytea), '{}', id, created_at
    FROM refunded
  `);
  for (const [table, operation] of [
    ["registration", "plant"],
    ["donation", "donate"],
  ] as const) {
    await insertTestKeys(filler, table, operation, accountId);
  }
  await filler.query(sql.typeAlias("void")`
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT ${accountId}, 'live', 'tree', period, ${RECORDS}
    FROM unnest(ARRAY['all', '2026-10', '2026-11']) AS period
    ON CONFLICT DO NOTHING
  `);
  await filler.query(sql.typeAlias("void")`
    INSERT INTO donor (account_id, mode, count, amount_cents)
    VALUES (${accountId}, 'live', ${RECORDS}, 100 * ${RECORDS}::bigint)
    ON CONFLICT DO NOTHING
  `);
};
