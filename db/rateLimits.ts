import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "./sql.ts";

/** At most this many requests in any window of this length. */
export type RateLimit = { readonly requests: number; readonly windowMs: number };

/** Returns whether another request of the bucket is permitted; the limit holds across all processes. */
export type TakePermit = (bucket: string, limit: RateLimit) => Promise<boolean>;

const permitRow = z.strictObject({ bucket: z.string() });

/**
 * See `TakePermit`. The database's clock decides, and the row's lock orders concurrent requests. A rejected request is not
 * counted. A recorded time in the future means that the clock was set back, so it no longer counts.
 */
export const takePermit = async (
  db: CommonQueryMethods,
  bucket: string,
  { requests, windowMs }: RateLimit,
) => {
  const permitted = await db.maybeOne(sql.prepared("take_permit", permitRow)`
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
  `);
  return permitted !== null;
};
