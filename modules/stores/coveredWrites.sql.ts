import type { CommonQueryMethods, FragmentSqlToken } from "slonik";
import { z } from "zod";
import { KINDS } from "../records/owner.rules.ts";
import type { CustomerDetails } from "./customers.rules.ts";
import type { StoreRegistrationWrite } from "./storeWrites.rules.ts";
import { sql } from "../../db/sql.ts";
import { nextRecordTime } from "./balances.sql.ts";
import { joinedOrders, treeOrderId } from "../planting/nextOrders.sql.ts";
import { ofEachKind, priceColumn } from "./stores.sql.ts";
import { keyHash } from "../records/idempotencyKeys.sql.ts";

const recordedRow = z.strictObject({ accountId: z.uuid() });

type StoreWrite = StoreRegistrationWrite & CustomerDetails;

/** The scope of a write's idempotency key. */
const GIVEN_SCOPE = {
  accountId: sql.fragment`(value ->> 1)::uuid`,
  mode: sql.fragment`value ->> 2`,
  operation: sql.fragment`value ->> 10`,
};

/** A query of the writes. */
const entryRows = (writes: readonly StoreWrite[]): FragmentSqlToken => {
  const input = JSON.stringify(
    writes.map((write) => [
      write.id,
      write.accountId,
      write.mode,
      write.kind,
      write.count,
      write.customerName,
      write.customerEmail,
      write.customerId,
      write.orderId,
      write.notes,
      write.operation,
      write.idempotency === null ? null : write.idempotency.key,
      write.idempotency === null ? null : write.idempotency.requestHash,
      write.idempotency === null ? null : write.responseBody,
    ]),
  );
  return sql.fragment`
    SELECT
      place,
      (value ->> 0)::uuid AS id,
      (value ->> 1)::uuid AS account_id,
      value ->> 2 AS mode,
      value ->> 3 AS kind,
      (value ->> 4)::bigint AS count,
      value ->> 5 AS customer_name,
      value ->> 6 AS customer_email,
      value ->> 7 AS customer_id,
      value ->> 8 AS order_id,
      value ->> 9 AS notes,
      value ->> 10 AS operation,
      ${keyHash(GIVEN_SCOPE, sql.fragment`value ->> 11`)} AS key_hash,
      decode(value ->> 12, 'hex') AS request_hash,
      value ->> 13 AS response_body
    FROM jsonb_array_elements(${input}::jsonb) WITH ORDINALITY AS given (value, place)
  `;
};

/** Defines the query `covered`: the writes of the query `priced` that may be recorded. */
const coveredWrites = sql.fragment`
  summed AS (
    SELECT
      *,
      next_record_at + (row_number() OVER (PARTITION BY account_id ORDER BY place) - 1) * interval '1 microsecond'
        AS created_at,
      -- A product can exceed a bigint.
      count::numeric * unit_price_cents AS cost_cents,
      sum(count::numeric * unit_price_cents) OVER (PARTITION BY account_id ORDER BY place) AS spent_cents,
      sum(count::numeric * unit_price_cents) OVER (PARTITION BY account_id) AS store_cost_cents,
      count(is_known) OVER (PARTITION BY account_id) AS known_keys
    FROM priced
  ),
  covered AS MATERIALIZED (
    SELECT *
    FROM summed
    WHERE known_keys = 0
      AND store_cost_cents <= balance_cents
      -- A payment that makes the balance low is an event.
      AND (balance_cents < low_balance_cents OR balance_cents - store_cost_cents >= low_balance_cents)
  )
`;

/** Records the writes of the query `covered`. */
const recordedWrites = sql.fragment`
  ${joinedOrders("covered")},
  registered AS (
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, tree_order_id
    )
    SELECT
      id, account_id, mode, kind, count, created_at, customer_name, customer_email, customer_id, order_id, notes,
      unit_price_cents, planting_order_id, ${treeOrderId}
    FROM covered
    LEFT JOIN joined_order USING (account_id, mode, kind)
  ),
  new_total AS (
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT account_id, mode, kind, period, sum(count)
    FROM covered
    CROSS JOIN LATERAL (
      VALUES ('all'), (to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'))
    ) AS span (period)
    GROUP BY account_id, mode, kind, period
    ORDER BY account_id, mode, kind, period
    ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
  ),
  paid AS (
    INSERT INTO balance_entry (
      account_id, kind, amount_cents, balance_cents, quantity, registration_id, created_at
    )
    SELECT
      account_id, kind, -cost_cents, balance_cents - spent_cents, count, id, created_at
    FROM covered
    WHERE cost_cents > 0
    ORDER BY place
  ),
  new_balance AS (
    UPDATE store_balance
    SET
      balance_cents = store_balance.balance_cents - written.cents,
      last_record_at = written.last_record_at
    FROM (
      SELECT account_id, sum(cost_cents) AS cents, max(created_at) AS last_record_at
      FROM covered
      GROUP BY account_id
    ) AS written
    WHERE store_balance.account_id = written.account_id
  ),
  stored AS (
    INSERT INTO idempotency_key (
      key_hash, account_id, mode, operation, request_hash, response_body, record_id, created_at
    )
    SELECT
      key_hash, account_id, mode, operation, request_hash, response_body, id, created_at
    FROM covered
    WHERE key_hash IS NOT NULL
  )
`;

/**
 * Records the writes of each store whose balance is not locked, covers all of its writes and does not become low, and
 * whose idempotency keys are all new: registrations, totals, balance entries, balances and responses, in one statement.
 * The writes of other stores are left out, because they must be decided one by one.
 *
 * Rows that were committed after the statement began are not seen, except in the balances. So a key that another process
 * has just used violates its unique constraint, and nothing is recorded.
 * @param writes no two of them have the same key
 * @returns the ids of the stores whose writes are recorded
 */
export const recordCoveredWrites = (
  db: CommonQueryMethods,
  writes: readonly StoreWrite[],
  now: Date,
): Promise<readonly string[]> => {
  const accountIds = [...new Set(writes.map(({ accountId }) => accountId))];
  return db.anyFirst(sql.prepared("record_covered_writes", recordedRow)`
    WITH entry AS MATERIALIZED (
      ${entryRows(writes)}
    ),
    free AS MATERIALIZED (
      SELECT
        store_balance.account_id, store_balance.balance_cents, store_balance.low_balance_cents,
        ${nextRecordTime(now)} AS next_record_at,
        ${ofEachKind((kind) => sql.fragment`${sql.identifier(["store", priceColumn(kind)])}`)}
      FROM store_balance
      JOIN store ON store.account_id = store_balance.account_id
      WHERE store_balance.account_id = ANY(${sql.array(accountIds, "uuid")})
      ORDER BY store_balance.account_id
      FOR NO KEY UPDATE OF store_balance SKIP LOCKED
    ),
    -- Materialized, because the count and the sums would each look up the keys.
    priced AS MATERIALIZED (
      SELECT
        entry.*,
        free.balance_cents,
        free.low_balance_cents,
        free.next_record_at,
        CASE
          WHEN entry.mode = 'test' THEN 0
          ${sql.join(
            KINDS.map(
              (kind) =>
                sql.fragment`WHEN entry.kind = ${kind} THEN ${sql.identifier(["free", priceColumn(kind)])}`,
            ),
            sql.fragment` `,
          )}
        END AS unit_price_cents,
        (SELECT true FROM idempotency_key WHERE idempotency_key.key_hash = entry.key_hash) AS is_known
      FROM free
      JOIN entry ON entry.account_id = free.account_id
    ),
    ${coveredWrites},
    ${recordedWrites}
    SELECT DISTINCT account_id AS "accountId"
    FROM covered
  `);
};
