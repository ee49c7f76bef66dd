import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";
import { eventually } from "./programs.ts";

/** Waits until others wait for a lock of this transaction. Returns their server processes. */
export const awaitBlocked = async (
  transaction: DatabaseTransactionConnection,
): Promise<readonly bigint[]> => {
  let pids: readonly bigint[] = [];
  await eventually(async () => {
    pids = await transaction.anyFirst(sql.type(z.strictObject({ pid: z.bigint() }))`
      SELECT DISTINCT pid::bigint
      FROM pg_locks
      WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))
    `);
    return pids.length > 0;
  });
  return pids;
};

/** Waits until server processes have ended, as they do some time after their client was killed. */
export const awaitGone = (db: CommonQueryMethods, pids: readonly bigint[]): Promise<void> =>
  eventually(
    async () =>
      !(await db.exists(sql.typeAlias("void")`
        SELECT FROM pg_stat_activity WHERE pid = ANY(${sql.array(pids, "int8")})
      `)),
  );
