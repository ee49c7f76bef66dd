import type { CommonQueryMethods } from "slonik";
import { sql } from "../sql.ts";

/** Returns whether the database knows a time zone. Node may have another edition of the time zone database. */
export const readIsKnownTimeZone = (db: CommonQueryMethods, name: string): Promise<boolean> =>
  db.exists(sql.typeAlias("void")`
    SELECT FROM pg_timezone_names WHERE lower(name) = lower(${name})
  `);
