import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "./sql.ts";

const statusRow = z.strictObject({ version: z.string(), now: z.date() });

/** Returns the database server's version and the time of its clock. */
export const readServerStatus = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof statusRow>>> =>
  db.one(sql.type(statusRow)`
    SELECT current_setting('server_version') AS version, clock_timestamp() AS now
  `);
