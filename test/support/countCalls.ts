import type { DatabasePool } from "slonik";
import { wrapPool } from "../../db/pools/pool.ts";

/** Returns a pool that counts the statements and transactions that it is given. */
export const countCalls = (pool: DatabasePool) => {
  let calls = 0;
  const db = wrapPool(pool, (method) => (...parameters) => {
    calls += 1;
    return method(...parameters);
  });
  return { db, count: () => calls };
};
