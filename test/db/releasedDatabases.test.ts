import test from "ava";
import manifest from "../../package.json" with { type: "json" };
import { copyFile, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Client } from "pg";
import { z } from "zod";
import { migrate } from "../../db/migrate.ts";
import { readMigrations } from "../../db/readMigrations.ts";
import { createEmptyDatabase, openClient, openTestPool } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually } from "../support/programs.ts";
import { insertEveryRecord, readers, serveAll, TREES } from "./everyRecord.ts";

/* The content of a database as JSON, with which a later version can fill one. */

const row = z.record(z.string(), z.unknown());

const recordedDatabase = z.strictObject({
  /** The last number of each sequence. */
  sequences: z.record(z.string(), z.int()),
  tables: z.record(z.string(), z.array(row)),
});
type RecordedDatabase = z.output<typeof recordedDatabase>;

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

const readDatabase = async (client: Client): Promise<RecordedDatabase> => {
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
const writeDatabase = async (client: Client, { sequences, tables }: RecordedDatabase) => {
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

/* Upgrades from each release whose database is in `releases/`: its migrations, a record of every table, and responses. */

const RELEASES = new URL("releases/", import.meta.url);
const MIGRATIONS = fileURLToPath(new URL("../../db/migrations/", import.meta.url));

const release = z.strictObject({
  /** The checksums of its migrations. */
  migrations: z.record(z.string(), z.string()),
  readers,
  database: recordedDatabase,
  /** What its API responds, by path. */
  responses: z.record(z.string(), z.looseObject({})),
});

const isRecorded = process.env["WRITE_RELEASE"] !== undefined;

if (isRecorded) {
  test("a database of this release is recorded", async (t) => {
    const url = await createEmptyDatabase(t);
    await migrate(url);
    const db = await openTestPool(t, url, 4);
    const inserted = await insertEveryRecord(t, db);
    const { read } = await serveAll(t, db, inserted.readers);
    const responses: z.output<typeof release>["responses"] = {};
    for (const path of inserted.paths) {
      responses[path] = await read(path);
    }
    const database = await readDatabase(await openClient(t, url));
    const empty = Object.entries(database.tables).filter(([, rows]) => rows.length === 0);
    t.deepEqual(empty, [], "Insert a record into these tables in everyRecord.ts");
    const migrations = (await readMigrations()).map(({ name, checksum }) => [name, checksum]);
    await writeFile(
      new URL(`${manifest.version}.json`, RELEASES),
      `${JSON.stringify({ migrations: Object.fromEntries(migrations), readers: inserted.readers, database, responses })}\n`,
    );
  });
}

for (const file of isRecorded ? [] : await readdir(RELEASES)) {
  const version = file.replace(/\.json$/u, "");
  const recorded = release.parse(JSON.parse(await readFile(new URL(file, RELEASES), "utf8")));

  test(`the migrations of ${version} are unchanged`, async (t) => {
    const checksums = new Map(
      (await readMigrations()).map(({ name, checksum }) => [name, checksum]),
    );
    const changed = Object.entries(recorded.migrations).filter(
      ([name, checksum]) => checksums.get(name) !== checksum,
    );
    t.deepEqual(
      changed.map(([name]) => name),
      [],
      `Databases of ${version} have these migrations. Restore them and write a new one. Only before the tag of ${version}, run: npm run record-release`,
    );
  });

  test(`a database of ${version} is upgraded, and served as before`, async (t) => {
    const url = await createEmptyDatabase(t);
    const folder = await makeTestFolder(t);
    for (const name of Object.keys(recorded.migrations)) {
      await copyFile(join(MIGRATIONS, `${name}.sql`), join(folder, `${name}.sql`));
    }
    await migrate(url, { folder });
    await writeDatabase(await openClient(t, url), recorded.database);

    await migrate(url);

    const db = await openTestPool(t, url, 4);
    const { read, write, bill } = await serveAll(t, db, recorded.readers);
    for (const [path, response] of Object.entries(recorded.responses)) {
      // A later release may add fields.
      t.like(await read(path), response, path);
    }
    const repeated = await write("/plant/trees", TREES);
    t.is(repeated.headers.get("Idempotent-Replayed"), "true");
    const [{ id }] = z
      .looseObject({ tree_details: z.tuple([z.looseObject({ id: z.uuid() })]) })
      .parse(repeated.body).tree_details;
    const { body: refunded } = await write("/refund/trees", { id }, "after the upgrade");
    t.like(refunded, { refunded_trees: 5 });
    t.is(await bill(), 7, "the other seven trees");
    // A transaction of another test may hold back the feed for a moment.
    await eventually(async () =>
      /registration\.refunded/u.test(JSON.stringify(await read("/events"))),
    );
    await write("/app/api/plant", { trees: 1, customer_name: "Ben" }, "after the upgrade");
  });
}
