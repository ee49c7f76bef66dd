import { query } from "./query.ts";

/** The time over which registrations are filled in. It ends before the last seconds, whose usage is not yet sealed. */
const SPAN_SECONDS = 30 * 24 * 3600;

/** Registrations of the same second, whose usage is one meter event. */
const PER_EVENT = 5;

const FILL = `
  WITH event AS (
    SELECT
      floor(extract(epoch FROM now()) - 3600 - number * $4::double precision / $2::bigint)::bigint AS second
    FROM generate_series($2::bigint, 1, -1) AS number
  ),
  sealed AS (
    INSERT INTO meter_event (
      account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at
    )
    SELECT
      $1::uuid, 'live', 'tree', second, 1, $3::bigint, 'u1:' || $1::uuid || ':live:tree:' || second || ':1', 'ledger',
      'delivered', time, time
    FROM event
    CROSS JOIN LATERAL to_timestamp(second + 3) AS time
    RETURNING id, second, quantity
  ),
  next_order AS (
    INSERT INTO next_planting_order (account_id, mode) VALUES ($1::uuid, 'live') RETURNING id
  ),
  registered AS (
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, idempotency_key, attribution, metadata, usage_batch,
      planting_order_id, tree_order_id
    )
    SELECT
      uuidv7(created_at - clock_timestamp()), $1::uuid, 'live', 'tree', 1, created_at,
      'fill-' || second || '-' || number, CASE WHEN number % 2 = 0 THEN 'newsletter' ELSE '' END,
      jsonb_build_object('order', second * $3::bigint + number),
      -- As if each had been recorded by itself.
      nextval('usage_batch'),
      next_order.id,
      nextval('tree_order_id')
    FROM next_order
    CROSS JOIN event
    CROSS JOIN generate_series(1, $3::bigint) AS number
    CROSS JOIN LATERAL to_timestamp(second) AS created_at
    RETURNING id, created_at, idempotency_key, usage_batch
  ),
  stored AS (
    INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
    SELECT
      idempotency_key_hash((SELECT idempotency_secret FROM deployment), $1::uuid, 'live', 'plant', idempotency_key),
      $1::uuid, 'live', 'plant', id
    FROM registered
  ),
  total AS (
    INSERT INTO impact_total (account_id, mode, kind, period, total)
    SELECT $1::uuid, 'live', 'tree', 'all', count(*)
    FROM registered
    UNION ALL
    SELECT $1::uuid, 'live', 'tree', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM') AS month, count(*)
    FROM registered
    GROUP BY month
  )
  INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
  SELECT $1::uuid, 'live', 'tree', usage_batch, 1, second, sealed.id
  FROM registered
  JOIN sealed ON second = extract(epoch FROM created_at)::bigint`;

/**
 * Inserts the first registrations of an account with the usage, totals and meter events that the service would have written.
 * @param count is rounded up to a multiple of five
 */
export const fillRegistrations = async (
  databaseUrl: string,
  accountId: string,
  count: number,
): Promise<void> => {
  const url = new URL(databaseUrl);
  // Foreign keys are not checked, and commits do not wait for the disk.
  url.searchParams.set(
    "options",
    "-c session_replication_role=replica -c synchronous_commit=off -c work_mem=128MB",
  );
  const events = Math.ceil(count / PER_EVENT);
  await query(url.href, FILL, [accountId, events, PER_EVENT, SPAN_SECONDS]);
  // With this many rows, autovacuum would have run.
  await query(databaseUrl, "VACUUM (ANALYZE)");
  await query(databaseUrl, "CHECKPOINT");
};
