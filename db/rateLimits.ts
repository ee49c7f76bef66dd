import { LRUCache } from "lru-cache";
import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "./sql.ts";

/** At most this many requests in any window of this length. */
export type RateLimit = { readonly requests: number; readonly windowMs: number };

/** Returns whether another request of the bucket is permitted; the limit holds across all processes. */
export type TakePermit = (bucket: string, limit: RateLimit) => Promise<boolean>;

const waitMsRow = z.strictObject({ waitMs: z.int() });

/**
 * Counts a request against its bucket's limit. The database's clock decides, and the row's lock orders concurrent
 * requests. A rejected request is not counted. A recorded time in the future means that the clock was set back, so it no
 * longer counts.
 * @returns 0 if the request is permitted, otherwise the minimum wait until the next permit, in milliseconds
 */
export const waitForPermit = (
  db: CommonQueryMethods,
  bucket: string,
  { requests, windowMs }: RateLimit,
): Promise<number> =>
  db.oneFirst(sql.prepared("wait_for_permit", waitMsRow)`
    WITH permitted AS (
      INSERT INTO rate_limit AS known (bucket, permitted_at)
      VALUES (${bucket}, ARRAY[clock_timestamp()])
      ON CONFLICT (bucket) DO UPDATE
      SET permitted_at = array_append(
        known.permitted_at[greatest(cardinality(known.permitted_at) - ${requests} + 2, 1):],
        clock_timestamp()
      )
      WHERE cardinality(known.permitted_at) < ${requests}
        OR known.permitted_at[cardinality(known.permitted_at) - ${requests} + 1]
          NOT BETWEEN clock_timestamp() - ${windowMs} * interval '1 millisecond' AND clock_timestamp()
      RETURNING 0 AS wait_ms
    ),
    -- As of the statement's start: if concurrent requests were permitted since, the real wait is longer.
    rejected AS (
      SELECT floor(extract(epoch FROM
        permitted_at[cardinality(permitted_at) - ${requests} + 1] - clock_timestamp()
      ) * 1000)::integer + ${windowMs}::integer AS wait_ms
      FROM rate_limit
      WHERE bucket = ${bucket}
    )
    SELECT coalesce(
      (SELECT wait_ms FROM permitted),
      (SELECT greatest(1, least(wait_ms, ${windowMs}::integer)) FROM rejected),
      1
    ) AS "waitMs"
  `);

/** Buckets with recent requests. A forgotten one only asks the database again. */
const MAXIMUM_REMEMBERED = 10_000;

/**
 * Creates a function that takes permits, with at most one query of a bucket at a time. After a rejection it rejects
 * without a query until the database can permit another request, so that a flood of them costs nothing.
 * @param nowMs a monotonic clock
 */
export const createPermits = ({
  db,
  nowMs = () => performance.now(),
}: {
  readonly db: CommonQueryMethods;
  readonly nowMs?: () => number;
}): TakePermit => {
  const buckets = new LRUCache<string, { last: Promise<unknown>; fullUntilMs: number }>({
    max: MAXIMUM_REMEMBERED,
  });
  return async (name, limit) => {
    const bucket = buckets.get(name) ?? { last: Promise.resolve(), fullUntilMs: -Infinity };
    buckets.set(name, bucket);
    const take = async (): Promise<boolean> => {
      const startedAtMs = nowMs();
      if (startedAtMs < bucket.fullUntilMs) {
        return false;
      }
      const waitMs = await waitForPermit(db, name, limit);
      bucket.fullUntilMs = startedAtMs + waitMs;
      return waitMs === 0;
    };
    const taken = bucket.last.then(take);
    bucket.last = Promise.allSettled([taken]);
    return taken;
  };
};
