import { setTimeout as delay } from "node:timers/promises";
import type { CommonQueryMethods, DatabasePool } from "slonik";
import { z } from "zod";
import { runForAll } from "../runtime/client.ts";
import { wrapPool } from "./pools/pool.ts";
import { sql } from "./sql.ts";

/** How soon bulk work notices that clients record. The query takes a fifth of a millisecond. */
const READ_INTERVAL_MS = 250;

/** More than the second to which a usage fact's time is rounded. */
const COUNTED_SECONDS = 2;
/** Enough to count the records of a busy second, and few enough to read in no time. */
const COUNTED_ROWS = 200;

const rateRow = z.strictObject({ perSecond: z.number() });

/**
 * Returns how many registrations, donations and store writes clients recorded in a second lately. What bulk work records
 * does not count.
 */
export const readRecordingRate = (db: CommonQueryMethods): Promise<number> =>
  db.oneFirst(sql.prepared("read_recording_rate", rateRow)`
    SELECT coalesce(sum(records), 0)::double precision / ${COUNTED_SECONDS} AS "perSecond"
    FROM (
      (SELECT record_count AS records, to_timestamp(second) AS time FROM usage_fact ORDER BY id DESC LIMIT ${COUNTED_ROWS})
      UNION ALL
      SELECT 1, created_at
      FROM (SELECT created_at FROM balance_entry ORDER BY id DESC LIMIT ${COUNTED_ROWS}) AS entry
      UNION ALL
      SELECT 1, created_at
      FROM (SELECT created_at, type FROM event ORDER BY id DESC LIMIT ${COUNTED_ROWS}) AS event
      WHERE type LIKE 'donation.%'
    ) AS recorded
    WHERE time > clock_timestamp() - ${COUNTED_SECONDS} * interval '1 second'
  `);

/** Up to this rate, one core of a two-core machine stays free for bulk work. */
const RECORDS_OF_A_FREE_CORE = 100;
/** Bulk work always progresses. */
const MINIMUM_SHARE = 1 / 5;
/** A step that takes longer is not split, or waits for something else. Its whole rest would delay others for too long. */
const MAXIMUM_STEP_MS = 250;

export const restMs = (stepMs: number, recordsPerSecond: number): number => {
  const share = Math.max(MINIMUM_SHARE, Math.min(1, RECORDS_OF_A_FREE_CORE / recordsPerSecond));
  return Math.min(stepMs, MAXIMUM_STEP_MS) * (1 / share - 1);
};

/**
 * Returns a pool for bulk work (lists, exports, imports, reconciliations, planting orders), which yields to recording: while
 * clients record, a rest follows each statement and each transaction, so that nothing rests with locks. The rests of all
 * processes follow each other, under one lock of the database.
 * @param db where the rests are
 * @param pause replaces the timer
 */
export const createBulkPool = (
  pool: DatabasePool,
  db = pool,
  pause: (durationMs: number) => Promise<unknown> = delay,
): DatabasePool => {
  let recordsPerSecond = 0;
  let readAtMs = -Infinity;
  /** The process rests once at a time, so that it uses one connection. */
  let previous: Promise<unknown> = Promise.resolve();

  const readIfDue = async (): Promise<void> => {
    if (performance.now() - readAtMs >= READ_INTERVAL_MS) {
      readAtMs = performance.now();
      recordsPerSecond = await readRecordingRate(db);
    }
  };
  const rest = (durationMs: number): Promise<void> =>
    db.transaction(async (transaction) => {
      await transaction.query(sql.typeAlias("void")`
        SELECT FROM pg_advisory_xact_lock(hashtext('bulk_work'))
      `);
      await pause(durationMs);
    });
  return wrapPool(pool, (method) => async (...parameters) => {
    // For all accounts: it must not count against the share of the account whose list is read.
    await runForAll(readIfDue);
    const startedAtMs = performance.now();
    const result = await method(...parameters);
    const durationMs = restMs(performance.now() - startedAtMs, recordsPerSecond);
    if (durationMs > 0) {
      const rested = previous.then(() => runForAll(() => rest(durationMs)));
      previous = rested.catch(() => undefined);
      await rested;
    }
    return result;
  });
};
