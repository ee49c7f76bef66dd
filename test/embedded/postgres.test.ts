import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { ExecutionContext } from "ava";
import test from "ava";
import { Client } from "pg";
import { startPostgres } from "../../embedded/postgres/startPostgres.ts";
import type { EmbeddedPostgres } from "../../embedded/postgres/startPostgres.ts";
import { StartupError } from "../../program/startupError.ts";
import { parseConfig } from "../../config/config.ts";
import { prepareDatabase, startDatabase } from "../../embedded/prepareDatabase.ts";
import { isRunning } from "../../embedded/processIdentity.ts";
import { createSupervisor, stopLeftovers } from "../../embedded/createSupervisor.ts";
import { makeTestFolder } from "../support/makeTestFolder.ts";

const makeFolder = async (t: ExecutionContext): Promise<string> => {
  const folder = await makeTestFolder(t);
  return folder;
};

const start = (
  t: ExecutionContext,
  folder: string,
  disposable: boolean,
): Promise<EmbeddedPostgres> => {
  const { context, stopAll } = createSupervisor(folder, t.log);
  t.teardown(stopAll);
  return startPostgres({ folder, port: 0, disposable, context });
};

const query = async (url: string, sql: string): Promise<unknown[]> => {
  const client = new Client({ connectionString: url });
  await client.connect();
  try {
    return (await client.query({ text: sql, rowMode: "array" })).rows.flat();
  } finally {
    await client.end();
  }
};

test("an orphaned server is stopped before its data is used again", async (t) => {
  const folder = await makeFolder(t);
  const orphan = await start(t, folder, true);
  await query(orphan.url, "CREATE TABLE kept AS SELECT 1 AS value");
  const next = await start(t, folder, true);
  t.false(isRunning(orphan.process.identity));
  t.deepEqual(await query(next.url, "SELECT value FROM kept"), [1]);
});

test("a process that has the id of a dead server is not stopped", async (t) => {
  const folder = await makeFolder(t);
  const first = await start(t, folder, true);
  await first.process.stop();
  await writeFile(join(folder, "data/postmaster.pid"), `${process.pid}\n${folder}/data\n`);
  const second = await start(t, folder, true);
  t.deepEqual(await query(second.url, "SELECT 1"), [1]);
});

test("a server that refuses the connection is reported with the end of its log", async (t) => {
  const folder = await makeFolder(t);
  const first = await start(t, folder, true);
  await first.process.stop();
  await writeFile(join(folder, "password"), "another");
  await t.throwsAsync(start(t, folder, true), {
    instanceOf: StartupError,
    message:
      /^PostgreSQL cannot be used: password authentication failed.*FATAL: {2}password authentication failed/su,
  });
});

test("an error of the embedded database names its log", async (t) => {
  const folder = await makeFolder(t);
  const { context, stopAll } = createSupervisor(folder, t.log);
  t.teardown(stopAll);
  const config = parseConfig({ EMBEDDED_POSTGRES_PORT: "0" });
  const database = await startDatabase(config, folder, context);
  await stopAll();
  await t.throwsAsync(prepareDatabase(config, database, false, context), {
    instanceOf: StartupError,
    message: /ECONNREFUSED.*\nIts log is \S+postgres\.log\.$/u,
  });
});

test("a start completes what an interrupted first start left", async (t) => {
  const folder = await makeFolder(t);
  await writeFile(join(folder, "processes.json"), "");
  await writeFile(join(folder, "password"), "", { mode: 0o600 });
  await stopLeftovers(folder, t.log);
  const { url } = await start(t, folder, true);
  t.deepEqual(await query(url, "SELECT 1"), [1]);
});

test("a killed first start whose password is still root's is completed", async (t) => {
  const folder = await makeFolder(t);
  await writeFile(join(folder, "password"), "x".repeat(32), { mode: 0o600 });
  const { url } = await start(t, folder, true);
  t.is(new URL(url).password, "x".repeat(32));
});

test("writes are durable by default, and connecting requires the password", async (t) => {
  const { url } = await start(t, await makeFolder(t), false);
  const settings = ["fsync", "synchronous_commit", "full_page_writes"];
  t.deepEqual(
    await query(url, `SELECT setting FROM pg_settings WHERE name IN ('${settings.join("', '")}')`),
    ["on", "on", "on"],
  );
  const wrong = new URL(url);
  wrong.password = "guess";
  await t.throwsAsync(query(wrong.href, "SELECT 1"), { code: "28P01" });
});
