import { execFile } from "node:child_process";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";

/**
 * What a service without group commit would run for each request: the same rows and totals, in one statement and so one
 * transaction. Each account has one planting order.
 */
const statement = (accounts: number): string => `
\\set account random(1, ${accounts})
WITH entry AS MATERIALIZED (
  SELECT
    uuidv7() AS id,
    ('00000000-0000-4000-8000-' || lpad(:account::text, 12, '0'))::uuid AS account_id,
    gen_random_uuid()::text || '-0000000000' AS idempotency_key
),
claimed AS (
  INSERT INTO idempotency_key (key_hash, account_id, mode, operation, record_id)
  SELECT
    idempotency_key_hash((SELECT secret FROM idempotency_secret), account_id, 'live', 'plant', idempotency_key),
    account_id, 'live', 'plant', id
  FROM entry
  ON CONFLICT (key_hash) DO NOTHING
  RETURNING record_id
),
inserted AS (
  INSERT INTO registration
    (id, account_id, mode, kind, count, fractional_count, created_at, idempotency_key, attribution, metadata, usage_batch,
      planting_order_id, tree_order_id)
  SELECT
    id, account_id, 'live', 'tree', 1, 0, now(), idempotency_key, 'bench', '{"order": "0000000000"}',
    nextval('usage_batch'), :account, nextval('tree_order_id')
  FROM entry
  WHERE id IN (SELECT record_id FROM claimed)
  RETURNING account_id, mode, kind, count, created_at, usage_batch
),
fact AS (
  INSERT INTO usage_fact (account_id, mode, kind, usage_batch, quantity, second)
  SELECT account_id, mode, kind, usage_batch, count, floor(extract(epoch FROM created_at))::bigint
  FROM inserted
)
INSERT INTO impact_total (account_id, mode, kind, period, total)
SELECT account_id, mode, kind, period, count
FROM inserted
CROSS JOIN (VALUES ('all'), (to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM'))) AS span (period)
ON CONFLICT (account_id, mode, kind, period) DO UPDATE SET total = impact_total.total + excluded.total
RETURNING total;
`;

/** Returns the id of the account with this number, counted from 1, as the statement uses it. */
export const pgbenchAccountId = (number: number): string =>
  `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;

/** Returns the registrations per second that pgbench writes row by row. */
export const runPgbench = async (
  databaseUrl: string,
  folder: string,
  load: { readonly accounts: number; readonly clients: number; readonly durationMs: number },
): Promise<number> => {
  const file = join(folder, "pgbench.sql");
  await writeFile(file, statement(load.accounts));
  const { stdout } = await promisify(execFile)("pgbench", [
    "--no-vacuum",
    "--protocol=prepared",
    `--client=${load.clients}`,
    "--jobs=2",
    `--time=${Math.max(1, Math.round(load.durationMs / 1000))}`,
    `--file=${file}`,
    databaseUrl,
  ]);
  return Number(/^tps = (?<rate>[\d.]+)/mu.exec(stdout)?.groups?.["rate"]);
};
