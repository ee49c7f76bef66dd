import { Client } from "pg";

/** So few that even a new server has ended them. */
const TRANSACTIONS = 500;

/**
 * Inserts an account's registrations, up to a few seconds ago, with the usage facts and totals that the service would
 * have written. Skips foreign keys and updates each total once, which is faster than the service.
 * @param reported whether the usage counts as sent, in one meter event
 */
export const fillRegistrations = async (
  databaseUrl: string,
  {
    accountId,
    count,
    spanSeconds,
    reported,
  }: {
    readonly accountId: string;
    readonly count: number;
    readonly spanSeconds: number;
    readonly reported: boolean;
  },
): Promise<void> => {
  const client = new Client({ connectionString: databaseUrl });
  await client.connect();
  try {
    await client.query("SET session_replication_role = replica");
    await client.query("SET synchronous_commit = off");
    if (reported) {
      await client.query(
        `INSERT INTO meter_event
           (account_id, mode, kind, second, sequence, quantity, identifier, processor, state, sealed_at, settled_at)
         VALUES ($1, 'live', 'tree', 0, 1, $2, $1::uuid::text, 'ledger', 'delivered', now(), now())`,
        [accountId, count],
      );
    }
    await client.query(
      `WITH span AS (
         SELECT date_trunc('second', clock_timestamp()) - make_interval(secs => $3::double precision + 5) AS start
       ),
       inserted AS (
         INSERT INTO registration (
           id, account_id, mode, kind, count, created_at, idempotency_key, attribution, metadata, usage_batch,
           transaction_id
         )
         SELECT
           uuidv7(created_at - clock_timestamp()), $1::uuid, 'live', 'tree', 1, created_at, 'fill-' || number,
           CASE WHEN number % 2 = 0 THEN 'newsletter' ELSE '' END, jsonb_build_object('order', number),
           -- As if each had been recorded by itself.
           nextval('usage_batch'),
           (3 + number * $4::bigint / $2::bigint)::text::xid8
         FROM span
         CROSS JOIN generate_series(0, $2::bigint - 1) AS number
         CROSS JOIN LATERAL (
           SELECT start + make_interval(secs => $3::double precision * number / $2::bigint) AS created_at
         ) AS time
         RETURNING created_at, usage_batch
       )
       INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second, meter_event_id)
       SELECT
         $1::uuid, 'live', 'tree', usage_batch, 1, floor(extract(epoch FROM created_at))::bigint,
         (SELECT id FROM meter_event WHERE account_id = $1::uuid AND second = 0)
       FROM inserted`,
      [accountId, count, spanSeconds, TRANSACTIONS],
    );
    await client.query(
      `INSERT INTO impact_total (account_id, mode, kind, period, total)
       VALUES ($1, 'live', 'tree', 'all', $2), ($1, 'live', 'tree', to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'), $2)`,
      [accountId, count],
    );
    // With this many rows, autovacuum would have run.
    await client.query("VACUUM (ANALYZE) registration, usage_fact, impact_total");
    await client.query("CHECKPOINT");
  } finally {
    await client.end();
  }
};
