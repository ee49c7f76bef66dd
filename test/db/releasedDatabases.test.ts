import test from "ava";
import manifest from "../../package.json" with { type: "json" };
import { copyFile, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { z } from "zod";
import { migrate } from "../../db/migrate.ts";
import { readMigrations } from "../../db/readMigrations.ts";
import { createEmptyDatabase, openClient, openTestPool } from "../support/database.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";
import { eventually } from "../support/programs.ts";
import { databaseContent, readContent, writeContent } from "../support/savedDatabase.ts";
import { insertEveryRecord, readers, serveAll, TREES } from "./everyRecord.ts";

/* Upgrades from each release whose database is in `releases/`: its migrations, a record of every table, and responses. */

const RELEASES = new URL("releases/", import.meta.url);
const MIGRATIONS = fileURLToPath(new URL("../../db/migrations/", import.meta.url));

const release = z.strictObject({
  /** The checksums of its migrations. */
  migrations: z.record(z.string(), z.string()),
  readers,
  database: databaseContent,
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
    const database = await readContent(await openClient(t, url));
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
    // An upgrade is no restore on another server, after which usage would be held.
    const isOnItsServer = "UPDATE deployment SET server = NULL";
    await writeContent(await openClient(t, url), recorded.database, isOnItsServer);

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
