import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const statusRow = z.strictObject({
  version: z.string(),
  now: z.date(),
  acceptsWrites: z.boolean(),
});

/** Returns the database server's version, the time of its clock, and whether new transactions may write. */
export const readServerStatus = (db: CommonQueryMethods) =>
  db.one(sql.type(statusRow)`
    SELECT
      current_setting('server_version') AS version,
      clock_timestamp() AS now,
      current_setting('transaction_read_only') = 'off' AS "acceptsWrites"
  `);

const roleRow = z.strictObject({ name: z.string(), mayChangeSchema: z.boolean() });

/** Returns the role of this connection, and whether it may change tables: as their owner, as a member of it, or as a superuser. */
export const readRole = (db: CommonQueryMethods) =>
  db.one(sql.type(roleRow)`
    SELECT current_user AS name, pg_has_role(relowner, 'MEMBER') AS "mayChangeSchema"
    FROM pg_class
    WHERE oid = 'audit_entry'::regclass
  `);
