import type { Client } from "pg";
import { z } from "zod";
import { withClient } from "./database.ts";
import type { DatabaseContext } from "./database.ts";

/** The content of a database as JSON, with which it, or one of a later version, can be filled. */
export const databaseContent = z.strictObject({
  /** The last number of each sequence, if it has given any. */
  sequences: z.record(z.string(), z.int().nullable()),
  tables: z.record(z.string(), z.array(z.record(z.string(), z.unknown()))),
});
export type DatabaseContent = z.output<typeof databaseContent>;

/** Returns the columns that are written, by table. Numbers of transactions are of one server. */
const listColumns = async (client: Client): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await client.query<{ table: string; columns: string }>(`
    SELECT relname AS table, string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS columns
    FROM pg_class
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relpersistence = 'p'
      AND attgenerated = '' AND atttypid <> 'xid8'::regtype AND relname <> 'schema_migration'
    GROUP BY relname
    ORDER BY relname
  `);
  return new Map(rows.map(({ table, columns }) => [table, columns]));
};

export const readContent = async (client: Client): Promise<DatabaseContent> => {
  const tables: DatabaseContent["tables"] = {};
  for (const [table, columns] of await listColumns(client)) {
    const { rows } = await client.query<{ row: Record<string, unknown> }>(
      `SELECT to_jsonb(recorded) AS row FROM (SELECT ${columns} FROM ${table} ORDER BY 1, 2) AS recorded`,
    );
    tables[table] = rows.map(({ row }) => row);
  }
  const { rows } = await client.query<{ name: string; last: string | null }>(`
    SELECT sequencename AS name, last_value AS last FROM pg_sequences
    WHERE schemaname = 'public'
    ORDER BY sequencename
  `);
  const sequences = rows.map(({ name, last }) => [name, last === null ? null : Number(last)]);
  return { sequences: Object.fromEntries(sequences), tables };
};

/** Replaces the content of a database, which has the migrations of the recorded one. `change` is a further statement. */
export const writeContent = async (
  client: Client,
  { sequences, tables }: DatabaseContent,
  change = "",
): Promise<void> => {
  const columnsOf = await listColumns(client);
  const clear = Array.from(columnsOf.keys(), (table) => `DELETE FROM ${table}`).join("; ");
  // Neither triggers nor references matter to rows that were there before.
  await client.query(`BEGIN; SET LOCAL session_replication_role = replica; ${clear}`);
  for (const [table, rows] of Object.entries(tables).filter(([, { length }]) => length > 0)) {
    const columns = columnsOf.get(table);
    await client.query(
      `INSERT INTO ${table} (${columns}) OVERRIDING SYSTEM VALUE
      SELECT ${columns} FROM jsonb_populate_recordset(NULL::${table}, $1)`,
      [JSON.stringify(rows)],
    );
  }
  for (const [name, last] of Object.entries(sequences)) {
    await client.query("SELECT setval($1, $2, $3)", [name, last ?? 1, last !== null]);
  }
  await client.query(`${change}; COMMIT`);
};

/** A database whose earlier content can be restored. Copies would take most of the time of short random histories. */
export const createSavedDatabase = ({
  db,
  databaseUrl,
  ownerUrl,
}: Pick<DatabaseContext, "db" | "databaseUrl" | "ownerUrl">) => ({
  db,
  databaseUrl,
  save: () => withClient(ownerUrl, readContent),
  /** Restores the content. `onNewServer`: as a database that was restored, promoted or copied. */
  restore: (saved: DatabaseContent, { onNewServer = false } = {}): Promise<void> =>
    withClient(ownerUrl, (owner) =>
      writeContent(
        owner,
        saved,
        onNewServer
          ? "UPDATE deployment SET server = 'restored', held_on = CASE WHEN held_at IS NOT NULL THEN 'elsewhere' END"
          : "",
      ),
    ),
});

export type SavedDatabase = ReturnType<typeof createSavedDatabase>;
