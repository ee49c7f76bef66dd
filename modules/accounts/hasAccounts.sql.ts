import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../../db/sql.ts";

const isMigratedRow = z.strictObject({ isMigrated: z.boolean() });

/** Returns whether a database has accounts. One that was never migrated has none. */
export const hasAccounts = async (db: CommonQueryMethods): Promise<boolean> =>
  (await db.oneFirst(sql.type(isMigratedRow)`
    SELECT to_regclass('account') IS NOT NULL AS "isMigrated"
  `)) &&
  db.exists(sql.typeAlias("void")`
    SELECT FROM account
  `);
