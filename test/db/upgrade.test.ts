import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import test from "ava";
import type { ExecutionContext } from "ava";
import { migrate, requireCurrentSchema } from "../../db/migrate.ts";
import { SchemaError } from "../../runtime/errors.rules.ts";
import { createEmptyDatabase, openClient } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

/* Migrations of this release, and upgrades with migrations that the tests write. */

test("concurrent migrators apply each migration once, and a later one applies none", async (t) => {
  const url = await createEmptyDatabase(t);

  const results = await Promise.all([migrate(url), migrate(url), migrate(url)]);

  const applied = results.flatMap((result) => result.applied);
  t.is(new Set(applied).size, applied.length);
  t.true(applied.length > 0);
  t.deepEqual(await migrate(url), { applied: [] });
  await t.notThrowsAsync(requireCurrentSchema(url));
});

/** Creates a database, and a function that writes migrations to a release of the test's own and returns its folder. */
const setUp = async (t: ExecutionContext) => {
  const url = await createEmptyDatabase(t);
  const release = async (migrations: Readonly<Record<string, string>>): Promise<string> => {
    const folder = await makeTestFolder(t);
    for (const [name, text] of Object.entries(migrations)) {
      await writeFile(join(folder, `${name}.sql`), text);
    }
    return folder;
  };
  const upgrade = async (migrations: Readonly<Record<string, string>>, options = {}) =>
    migrate(url, { folder: await release(migrations), ...options });
  return { url, release, upgrade, client: await openClient(t, url) };
};

const FIRST = { "0001_things": "CREATE TABLE thing (id integer NOT NULL);" };
const SECOND = { ...FIRST, "0002_names": "ALTER TABLE thing ADD COLUMN name text;" };

const QUICK = { lockTimeoutMs: 100, pauseMs: 100 };

test("a migration that waits for a lock is tried again, and others can work between two attempts", async (t) => {
  const { url, upgrade, client } = await setUp(t);
  await upgrade(FIRST);
  const other = await openClient(t, url);
  await client.query("BEGIN");
  await client.query("SELECT FROM thing");

  const waits: string[] = [];
  const waited = Promise.withResolvers<void>();
  const upgraded = upgrade(SECOND, {
    ...QUICK,
    maximumAttempts: Infinity,
    onWait: (message: string) => {
      waits.push(message);
      waited.resolve();
    },
  });
  await waited.promise;
  await other.query("INSERT INTO thing VALUES (1)");
  await client.query("COMMIT");

  t.deepEqual(await upgraded, { applied: ["0002_names"] });
  t.regex(waits[0] ?? "", /^Migration 0002_names waits for a lock that other sessions hold/u);
});

test("a migration that never gets its lock changes nothing and says who may hold it", async (t) => {
  const { upgrade, client } = await setUp(t);
  await upgrade(FIRST);
  await client.query("BEGIN");
  await client.query("SELECT FROM thing");

  await t.throwsAsync(upgrade(SECOND, { ...QUICK, maximumAttempts: 2 }), {
    name: "SchemaError",
    message: /0002_names was rolled back.*pg_stat_activity/su,
  });

  const { rows } = await client.query("SELECT number FROM schema_migration");
  t.deepEqual(rows, [{ number: 1 }]);
  await client.query("COMMIT");
  t.deepEqual(await upgrade(SECOND), { applied: ["0002_names"] });
});

test("a migrator gives up after a while, and says how to find the session that holds the lock", async (t) => {
  const { url, upgrade, client } = await setUp(t);
  await upgrade(FIRST);
  const other = await openClient(t, url);
  await other.query("SELECT pg_advisory_lock(hashtext('schema_migration'))");
  const { rows: holders } = await other.query("SELECT pg_backend_pid() AS pid");

  const error = await t.throwsAsync(upgrade(SECOND, { migratorTimeoutMs: 1 }), {
    name: "SchemaError",
  });
  const advised = /SELECT [^;]+/u.exec(error.message)?.[0] ?? "";
  t.like((await client.query(advised)).rows, holders);

  await other.query("SELECT pg_advisory_unlock(hashtext('schema_migration'))");
  await upgrade(SECOND);
  t.is((await client.query("SELECT FROM schema_migration")).rowCount, 2);
});

test("a migrator that loses its connection while it waits for another one fails with the server's reason", async (t) => {
  const { url, upgrade, client } = await setUp(t);
  await upgrade(FIRST);
  const other = await openClient(t, url);
  await other.query("SELECT pg_advisory_lock(hashtext('schema_migration'))");

  const failed = t.throwsAsync(upgrade(SECOND), {
    name: "StartupError",
    message: /cannot be used: .*administrator command\. Check DATABASE_URL\./u,
  });
  const terminate = (): Promise<{ rowCount: number | null }> =>
    client.query(`
      SELECT pg_terminate_backend(pid)
      FROM pg_stat_activity
      WHERE datname = current_database() AND query LIKE 'SELECT pg_advisory_lock%'
        AND wait_event_type = 'Lock'
    `);
  while ((await terminate()).rowCount === 0) {
    // The migrator does not wait yet.
  }
  await failed;
});

test("a migration that loses its connection is named with the server's reason", async (t) => {
  const { upgrade } = await setUp(t);

  await t.throwsAsync(upgrade({ "0001_last": "SELECT pg_terminate_backend(pg_backend_pid());" }), {
    name: "StartupError",
    message:
      /^The database at .* cannot be used: the connection was lost during migration 0001_last: .*administrator command\. Check DATABASE_URL\./u,
  });
});

test("who applied a migration is recorded with it, also if a later one fails", async (t) => {
  const { upgrade, client } = await setUp(t);
  const accounts = await readFile(
    new URL("../../db/migrations/0001_accounts.sql", import.meta.url),
    "utf8",
  );
  const migrator = { kind: "operator", name: "Ada", reason: null };
  const release = { "0001_accounts": accounts, "0002_nothing": "SELECT 1 / 0;" };
  await t.throwsAsync(upgrade(release, { migrator }), { message: /0002_nothing failed/u });

  const repaired = {
    ...release,
    "0002_nothing": "CREATE TABLE thing (id integer);",
    "0003_thing_id": "CREATE UNIQUE INDEX ON thing (id);",
  };
  await upgrade(repaired, { migrator: { ...migrator, name: "Eve" } });

  const { rows } = await client.query(
    "SELECT operator, details FROM audit_entry WHERE action = 'migrate' ORDER BY id",
  );
  t.deepEqual(rows, [
    { operator: "Ada", details: { applied: ["0001_accounts"] } },
    { operator: "Eve", details: { applied: ["0002_nothing"] } },
    { operator: "Eve", details: { applied: ["0003_thing_id"] } },
  ]);
});

test("a release runs with the later migrations that say so, and not with others", async (t) => {
  const { url, release, upgrade } = await setUp(t);
  const oldest = await release(FIRST);
  const older = await release(SECOND);
  const expanded = {
    ...SECOND,
    "0003_colors": "-- @runs-with 0002\nALTER TABLE thing ADD COLUMN color text;",
  };
  const contracted = { ...expanded, "0004_names": "ALTER TABLE thing DROP COLUMN name;" };

  await upgrade(expanded);
  await t.notThrowsAsync(requireCurrentSchema(url, { folder: older }));
  // An orchestrator that starts the older release again may migrate first.
  t.deepEqual(await migrate(url, { folder: older }), { applied: [] });
  for (const start of [
    requireCurrentSchema,
    (at: string, options: object) => migrate(at, options),
  ]) {
    await t.throwsAsync(start(url, { folder: oldest }), {
      instanceOf: SchemaError,
      message: /newer release \(migration 2, 3\)/u,
    });
  }

  await upgrade(contracted);
  await t.throwsAsync(requireCurrentSchema(url, { folder: older }), {
    instanceOf: SchemaError,
    message: /newer release \(migration 4\)\. Run that release\.$/u,
  });
});

test("a database with an earlier version of a migration is neither migrated nor used, and the migration is named", async (t) => {
  const { url, release, upgrade } = await setUp(t);
  await upgrade(FIRST);
  const commented = await release({
    "0001_things": `-- What is counted.\n${FIRST["0001_things"]}`,
  });
  await t.notThrowsAsync(requireCurrentSchema(url, { folder: commented }));
  const edited = await release({ "0001_things": "CREATE TABLE thing (id bigint NOT NULL);" });

  const mismatch = {
    instanceOf: SchemaError,
    message: /another version, whose migration 0001_things differs/u,
  };
  await t.throwsAsync(requireCurrentSchema(url, { folder: edited }), mismatch);
  await t.throwsAsync(migrate(url, { folder: edited }), mismatch);
});
