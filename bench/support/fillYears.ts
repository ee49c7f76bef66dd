import { Client } from "pg";

/** Usage that is registered, reported to the built-in ledger and planted, evenly over a span up to now. */
export type Filled = {
  readonly accountId: string;
  readonly registrations: number;
  readonly spanSeconds: number;
  /** Registrations of the same second, whose facts are one meter event. */
  readonly perSecond: number;
};

const TREES_OF_ORDER = 1000;

const ORDERS = `
  INSERT INTO planting_order (
    public_id, account_id, mode, partner, partner_name, buyer_name, timeline, tree_count, stage, created_at,
    workflow_started_at, polled_at, finished_at
  )
  SELECT
    $1::uuid || '-' || number, $1::uuid, 'live', 'simulated', 'Partner', 'Buyer', 'allocations', $3::bigint, 'planted_and_verified', now(),
    now(), now(), now()
  FROM generate_series(0, ($2::bigint - 1) / $3::bigint) AS number`;

const EVENTS = `
  WITH event AS (
    SELECT floor($5::double precision + number * $3::bigint * $4::double precision / $2::bigint)::bigint AS second
    FROM generate_series(0, $2::bigint / $3::bigint - 1) AS number
  ),
  sealed AS (
    INSERT INTO meter_event (
      account_id, mode, kind, second, sequence, quantity, identifier, processor, state, attempts, first_attempt_at,
      sealed_at, settled_at
    )
    SELECT
      $1::uuid, 'live', 'tree', second, 1, $3::bigint, 'u1:' || $1::uuid || ':live:tree:' || second || ':1', 'ledger', 'delivered', 1,
      to_timestamp(second + 3), to_timestamp(second + 3), to_timestamp(second + 3)
    FROM event
    RETURNING identifier, second, quantity
  )
  INSERT INTO ledger_usage (identifier, account_id, mode, kind, second, quantity, recorded_at)
  SELECT identifier, $1::uuid, 'live', 'tree', second, quantity, to_timestamp(second + 3)
  FROM sealed`;

const REGISTRATIONS = `
  WITH ordered AS (
    SELECT array_agg(id ORDER BY id) AS ids FROM planting_order WHERE account_id = $1::uuid
  ),
  inserted AS (
    INSERT INTO registration (
      id, account_id, mode, kind, count, created_at, idempotency_key, attribution, metadata, json_bytes,
      planting_order_id, tree_order_id, ordered_count, usage_batch
    )
    SELECT
      uuidv7(created_at - clock_timestamp()), $1::uuid, 'live', 'tree', 1, created_at, 'order-' || number,
      CASE WHEN number % 2 = 0 THEN 'newsletter' ELSE '' END, jsonb_build_object('order', number), 320,
      ids[1 + number / $6::bigint], number, 1,
      -- As if each had been recorded by itself.
      nextval('usage_batch')
    FROM ordered
    CROSS JOIN generate_series(0, $2::bigint - 1) AS number
    CROSS JOIN LATERAL (
      SELECT to_timestamp(floor($5::double precision + (number / $3::bigint) * $3::bigint * $4::double precision / $2::bigint)) AS created_at
    ) AS time
    RETURNING usage_batch, extract(epoch FROM created_at)::bigint AS second
  )
  INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
  SELECT $1::uuid, 'live', 'tree', inserted.usage_batch, 1, inserted.second, meter_event.id
  FROM inserted
  JOIN meter_event ON meter_event.identifier = 'u1:' || $1::uuid || ':live:tree:' || inserted.second || ':1'`;

const TOTALS = `
  INSERT INTO impact_total (account_id, mode, kind, period, total)
  SELECT $1::uuid, 'live', 'tree', 'all', $2::bigint
  UNION ALL
  SELECT $1::uuid, 'live', 'tree', to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM'), count(*)
  FROM registration
  WHERE account_id = $1::uuid
  GROUP BY to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM')`;

/** Inserts the rows that the service leaves in the end; foreign keys are not checked. */
export const fillYears = async (
  databaseUrl: string,
  { accountId, registrations, spanSeconds, perSecond }: Filled,
): Promise<void> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  // Late enough to be delivered, and not within the first seconds of the sealing of new usage.
  const start = Math.floor(Date.now() / 1000) - spanSeconds - 3600;
  try {
    await client.query("SET session_replication_role = replica");
    await client.query("SET synchronous_commit = off");
    await client.query("SET work_mem = '128MB'");
    await client.query("BEGIN");
    await client.query(ORDERS, [accountId, registrations, TREES_OF_ORDER]);
    const values = [accountId, registrations, perSecond, spanSeconds, start];
    await client.query(EVENTS, values);
    await client.query(REGISTRATIONS, [...values, TREES_OF_ORDER]);
    await client.query(TOTALS, [accountId, registrations]);
    await client.query("COMMIT");
  } finally {
    await client.end();
  }
};
