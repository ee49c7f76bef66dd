import type { CommonQueryMethods } from "slonik";
import { waitForPermit } from "../../db/rateLimits.ts";
import type { RateLimit } from "../../db/rateLimits.ts";

/** Returns whether another request of the bucket is permitted, as the database decides. */
export const takePermit = async (
  db: CommonQueryMethods,
  bucket: string,
  limit: RateLimit,
): Promise<boolean> => (await waitForPermit(db, bucket, limit)) === 0;
