import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "./sql.ts";

/** Makes this connection the only one that dispatches, as long as it lives. */
export const tryDispatcherLock = (connection: CommonQueryMethods): Promise<boolean> =>
  connection.oneFirst(sql.type(z.strictObject({ locked: z.boolean() }))`
    SELECT pg_try_advisory_lock(hashtextextended('dispatcher', 0)) AS locked
  `);

export const releaseDispatcherLock = async (connection: CommonQueryMethods): Promise<void> => {
  await connection.oneFirst(sql.type(z.strictObject({ unlocked: z.boolean() }))`
    SELECT pg_advisory_unlock(hashtextextended('dispatcher', 0)) AS unlocked
  `);
};
