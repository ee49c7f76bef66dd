import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import type { LatestRecords } from "./bulkWork.rules.ts";
import { sql } from "./sql.ts";

const latestRow = z.strictObject({
  factId: z.bigint().nullable(),
  recordsPerFact: z.number(),
  entryId: z.bigint().nullable(),
  eventId: z.uuid().nullable(),
  ageMs: z.number(),
});

/** Requests and batches differ in how many records a fact has. */
const AVERAGED_FACTS = 20;

/**
 * The last usage facts, the last entry of a store's balance and the last event of a donation: what clients record, and bulk
 * work does not. Each is one step at the end of an index. A standby records nothing.
 */
const latest = sql.fragment`
  SELECT
    fact.id AS fact_id,
    coalesce(fact.records, 1)::double precision AS records_per_fact,
    entry.id AS entry_id,
    event.id AS event_id,
    extract(epoch FROM clock_timestamp() - coalesce(
      greatest(to_timestamp(fact.second), entry.created_at, event.created_at), to_timestamp(0)
    ))::double precision * 1000 AS age_ms
  FROM (SELECT NOT pg_is_in_recovery() AS accepts_writes) AS server
  LEFT JOIN (
    SELECT max(id) AS id, max(second) AS second, avg(record_count) AS records
    FROM (SELECT id, second, record_count FROM usage_fact ORDER BY id DESC LIMIT ${AVERAGED_FACTS}) AS last
  ) AS fact ON accepts_writes
  LEFT JOIN (
    SELECT id, created_at FROM balance_entry ORDER BY id DESC LIMIT 1
  ) AS entry ON accepts_writes
  LEFT JOIN (
    SELECT id, created_at, type FROM event ORDER BY id DESC LIMIT 1
  ) AS event ON accepts_writes AND event.type LIKE 'donation.%'
`;

const latestColumns = sql.fragment`
  latest.fact_id AS "factId",
  latest.records_per_fact AS "recordsPerFact",
  latest.entry_id AS "entryId",
  latest.event_id AS "eventId",
  latest.age_ms AS "ageMs"
`;

/** Reads what clients have recorded last. */
export const readLatestRecords = (db: CommonQueryMethods): Promise<LatestRecords> =>
  db.one(sql.prepared("read_latest_records", latestRow)`
    SELECT ${latestColumns}
    FROM (${latest}) AS latest
  `);

const turnRow = latestRow.extend({ waitMs: z.number() });

/**
 * Reserves the next turn of bulk work. The turns of all processes follow each other. The database's clock decides; a turn far in the future means that the clock was set back.
 * @returns how long to wait for the turn's beginning, and what clients have recorded last
 */
export const reserveBulkTurn = (
  db: CommonQueryMethods,
  durationMs: number,
): Promise<LatestRecords & { readonly waitMs: number }> =>
  db.one(sql.prepared("reserve_bulk_turn", turnRow)`
    WITH reserved AS (
      INSERT INTO bulk_turn AS known (ends_at)
      VALUES (clock_timestamp() + ${durationMs} * interval '1 millisecond')
      ON CONFLICT (is_only) DO UPDATE
      SET ends_at = ${durationMs} * interval '1 millisecond' + CASE
        WHEN known.ends_at BETWEEN clock_timestamp() AND clock_timestamp() + interval '10 seconds' THEN known.ends_at
        ELSE clock_timestamp()
      END
      RETURNING ends_at
    )
    SELECT
      ${latestColumns},
      greatest(
        0,
        extract(epoch FROM reserved.ends_at - clock_timestamp()) * 1000 - ${durationMs}
      )::double precision AS "waitMs"
    FROM reserved
    CROSS JOIN (${latest}) AS latest
  `);
