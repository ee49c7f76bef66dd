import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const lockRow = z.strictObject({ locked: z.boolean() });
const settingRow = z.strictObject({ setting: z.string() });
const unlockRow = z.strictObject({ unlocked: z.boolean() });

/**
 * Tries to acquire the dispatcher lock, which this connection holds until it is released or closed. TCP alone takes two
 * hours to notice that the holder's machine is gone, so PostgreSQL is set to end the session when it is idle.
 * @param maximumIdleMs longest time between two queries of the holder
 * @returns whether the lock was acquired
 */
export const tryDispatcherLock = async (
  connection: CommonQueryMethods,
  maximumIdleMs: number,
): Promise<boolean> => {
  const isLocked = await connection.oneFirst(sql.type(lockRow)`
    SELECT pg_try_advisory_lock(hashtextextended('dispatcher', 0)) AS locked
  `);
  if (isLocked) {
    await connection.oneFirst(sql.type(settingRow)`
      SELECT set_config('idle_session_timeout', ${String(maximumIdleMs)}, false) AS setting
    `);
  }
  return isLocked;
};

export const releaseDispatcherLock = async (connection: CommonQueryMethods): Promise<void> => {
  await connection.query(sql.typeAlias("void")`RESET idle_session_timeout`);
  await connection.oneFirst(sql.type(unlockRow)`
    SELECT pg_advisory_unlock(hashtextextended('dispatcher', 0)) AS unlocked
  `);
};
