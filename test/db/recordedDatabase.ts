import type { Client } from "pg";
import { z } from "zod";

/* The content of a database as JSON, with which a later version can fill one. */

const row = z.record(z.string(), z.unknown());

export const recordedDatabase = z.strictObject({
  /** The last number of each sequence. */
  sequences: z.record(z.string(), z.int()),
  tables: z.record(z.string(), z.array(row)),
});
export type RecordedDatabase = z.output<typeof recordedDatabase>;

/** Returns the columns that are written, by table. Numbers of transactions are of one server. */
const listColumns = async (client: Client): Promise<ReadonlyMap<string, readonly string[]>> => {
  const { rows } = await client.query<{ table: string; columns: string[] }>(`
    SELECT relname AS table, array_agg(attname::text ORDER BY attnum) AS columns
    FROM pg_class
    JOIN pg_attribute ON attrelid = pg_class.oid AND attnum > 0 AND NOT attisdropped
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relpersistence = 'p'
      AND attgenerated = '' AND atttypid <> 'xid8'::regtype AND relname <> 'schema_migration'
    GROUP BY relname
    ORDER BY relname
  `);
  return new Map(rows.map(({ table, columns }) => [table, columns]));
};

export const readDatabase = async (client: Client): Promise<RecordedDatabase> => {
  const tables: Record<string, Record<string, unknown>[]> = {};
  for (const [table, columns] of await listColumns(client)) {
    const { rows } = await client.query<{ row: Record<string, unknown> }>(
      `SELECT to_jsonb(recorded) AS row FROM (SELECT ${columns.join(", ")} FROM ${table} ORDER BY 1, 2) AS recorded`,
    );
    tables[table] = rows.map(({ row: recorded }) => recorded);
  }
  const { rows } = await client.query<{ name: string; last: string }>(`
    SELECT sequencename AS name, last_value AS last FROM pg_sequences
    WHERE schemaname = 'public' AND last_value IS NOT NULL
    ORDER BY sequencename
  `);
  const sequences = Object.fromEntries(rows.map(({ name, last }) => [name, Number(last)]));
  return { sequences, tables };
};

/** Replaces the content of a database, which has the migrations of the recorded one. */
export const writeDatabase = async (
  client: Client,
  { sequences, tables }: RecordedDatabase,
): Promise<void> => {
  const columnsOf = await listColumns(client);
  await client.query("BEGIN");
  // Without triggers and foreign keys, so that the order of the tables does not matter.
  await client.query("SET LOCAL session_replication_role = replica");
  await client.query(`TRUNCATE ${[...columnsOf.keys()].join(", ")}`);
  for (const [table, rows] of Object.entries(tables)) {
    const columns = columnsOf.get(table)?.join(", ");
    await client.query(
      `INSERT INTO ${table} (${columns}) OVERRIDING SYSTEM VALUE
      SELECT ${columns} FROM jsonb_populate_recordset(NULL::${table}, $1)`,
      [JSON.stringify(rows)],
    );
  }
  // An upgrade is no restore on another server, after which usage would be held.
  await client.query("UPDATE deployment SET server = NULL");
  for (const [name, last] of Object.entries(sequences)) {
    await client.query("SELECT setval($1, $2)", [name, last]);
  }
  await client.query("COMMIT");
};
