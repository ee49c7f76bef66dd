import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "./sql.ts";

/** At most this many requests in any window of this length. */
export type RateLimit = { readonly requests: number; readonly windowMs: number };

/** Returns whether another request of the bucket is permitted; the limit holds across all processes. */
export type TakePermit = (bucket: string, limit: RateLimit) => Promise<boolean>;

const waitRow = z.strictObject({ waitMs: z.int() });

/**
 * Counts a request against the limit of a bucket. The database's clock decides, and the row's lock orders concurrent
 * requests. A rejected request is not counted. A recorded time in the future means that the clock was set back, so it no
 * longer counts.
 * @returns 0 if the request is permitted, otherwise the minimum wait until the next permit, in milliseconds
 */
export const waitForPermit = (
  db: CommonQueryMethods,
  bucket: string,
  { requests, windowMs }: RateLimit,
): Promise<number> =>
  db.oneFirst(sql.prepared("wait_for_permit", waitRow)`
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
      RETURNING bucket
    )
    SELECT CASE WHEN EXISTS (SELECT FROM permitted) THEN 0 ELSE coalesce(
      (
        -- As of the statement's start: if concurrent requests were permitted since, the real wait is longer.
        SELECT greatest(1, least(${windowMs}::integer + floor(extract(epoch FROM
          permitted_at[cardinality(permitted_at) - ${requests} + 1] - clock_timestamp()
        ) * 1000)::integer, ${windowMs}::integer))
        FROM rate_limit
        WHERE rate_limit.bucket = ${bucket}
      ),
      1
    ) END AS "waitMs"
  `);

/** See `TakePermit`. */
export const takePermit = async (
  db: CommonQueryMethods,
  bucket: string,
  limit: RateLimit,
): Promise<boolean> => (await waitForPermit(db, bucket, limit)) === 0;
