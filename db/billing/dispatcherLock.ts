import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const lockRow = z.strictObject({ locked: z.boolean() });
const settingRow = z.strictObject({ setting: z.string() });
const unlockRow = z.strictObject({ unlocked: z.boolean() });

/**
 * Makes this connection the only one that dispatches, as long as it lives. The database learns late of a holder that
 * has vanished, after two hours by TCP alone, so it is told to end a session that has gone silent.
 * @param silenceMs how long the holder may let the connection be
 */
export const tryDispatcherLock = async (
  connection: CommonQueryMethods,
  silenceMs: number,
): Promise<boolean> => {
  const isLocked = await connection.oneFirst(sql.type(lockRow)`
    SELECT pg_try_advisory_lock(hashtextextended('dispatcher', 0)) AS locked
  `);
  if (isLocked) {
    await connection.oneFirst(sql.type(settingRow)`
      SELECT set_config('idle_session_timeout', ${String(silenceMs)}, false) AS setting
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
