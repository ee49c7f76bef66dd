import type { CommonQueryMethods } from "slonik";
import { z } from "zod";
import { sql } from "../sql.ts";

const statusRow = z.strictObject({
  version: z.string(),
  now: z.date(),
  acceptsWrites: z.boolean(),
});

/** Returns the database server's version, the time of its clock, and whether new transactions may write. */
export const readServerStatus = (
  db: CommonQueryMethods,
): Promise<Readonly<z.output<typeof statusRow>>> =>
  db.one(sql.type(statusRow)`
    SELECT
      current_setting('server_version') AS version,
      clock_timestamp() AS now,
      current_setting('transaction_read_only') = 'off' AS "acceptsWrites"
  `);

const localesRow = z.strictObject({
  name: z.string(),
  recorded: z.string(),
  actual: z.string(),
  reindex: z.string(),
  refresh: z.string(),
});

/** Lists the locales of indexes whose version differs from the one that the server's system has now. */
export const listChangedLocales = (
  db: CommonQueryMethods,
): Promise<readonly Readonly<z.output<typeof localesRow>>[]> =>
  db.any(sql.type(localesRow)`
    SELECT locale.*, format('REINDEX (CONCURRENTLY) DATABASE %I', current_database()) AS reindex
    FROM (
      SELECT
        'the database' AS name,
        datcollversion AS recorded,
        pg_database_collation_actual_version(oid) AS actual,
        format('ALTER DATABASE %I REFRESH COLLATION VERSION', datname) AS refresh
      FROM pg_database
      WHERE datname = current_database()
      UNION ALL
      SELECT
        format('the collation %I', collname),
        collversion,
        pg_collation_actual_version(oid),
        format('ALTER COLLATION pg_catalog.%I REFRESH VERSION', collname)
      FROM pg_collation
      WHERE oid = '"und-x-icu"'::regcollation
    ) AS locale
    WHERE locale.recorded <> locale.actual
  `);

const roleRow = z.strictObject({ name: z.string(), mayChangeSchema: z.boolean() });

/** Returns the role of this connection, and whether it may change tables: as their owner, as a member of it, or as a superuser. */
export const readRole = (db: CommonQueryMethods): Promise<Readonly<z.output<typeof roleRow>>> =>
  db.one(sql.type(roleRow)`
    SELECT current_user AS name, pg_has_role(relowner, 'MEMBER') AS "mayChangeSchema"
    FROM pg_class
    WHERE oid = 'audit_entry'::regclass
  `);
