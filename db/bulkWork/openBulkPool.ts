import type { DatabasePool } from "slonik";
import { wrapPool } from "../pools/wrapPool.ts";
import type { BulkPace } from "./createBulkPace.ts";

/** Returns the pool for bulk work: each statement or transaction is a step of the pace. */
export const openBulkPool = (pool: DatabasePool, pace: BulkPace): DatabasePool =>
  wrapPool(
    pool,
    (method) =>
      (...parameters) =>
        pace.run(() => method(...parameters)),
  );
