import { spawn } from "node:child_process";
import { once } from "node:events";
import { access } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { Client, Connection } from "@temporalio/client";
import ava from "ava";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import type { RunFile } from "../../runtime/runFile.ts";
import { readRunFile } from "../../runtime/runFile.ts";
import { findFreePort } from "../../runtime/server/ports.ts";
import { createEmptyDatabase, openClient } from "../support/database.ts";
import { listProcesses } from "../support/listProcesses.ts";
import { eventually } from "../support/programs.ts";
import { listen } from "../support/server.ts";
import type { Settings, StartedProcess } from "./runStart.ts";
import {
  START,
  buildEnvironment,
  createDataDir,
  makeDataDir,
  removeDataDir,
  runStart,
  waitUntilReady,
  watch,
} from "./runStart.ts";

const test = ava.serial;

const ALL = ["API", "PostgreSQL", "Temporal server", "worker"];

const namesOfRunning = async (dataDir: string): Promise<readonly string[]> =>
  [...(await listProcesses(dataDir)).keys()].toSorted();

const readTestKey = ({ output }: StartedProcess): string => {
  const key = /test key +(?<key>\S+)/u.exec(output())?.groups?.["key"];
  if (key === undefined) {
    throw new Error(`No key was printed:\n${output()}`);
  }
  return key;
};

const totals = z.object({ total_planted_trees: z.int() });

const countTrees = async ({ apiUrl }: RunFile, key: string): Promise<number> => {
  const response = await fetch(`${apiUrl}/plant/trees`, { headers: { Authorization: key } });
  return totals.parse(await response.json()).total_planted_trees;
};

const plantTrees = ({ apiUrl }: RunFile, key: string, count: number): Promise<Response> =>
  fetch(`${apiUrl}/plant/trees`, {
    method: "POST",
    headers: { Authorization: key, "Content-Type": "application/json" },
    body: JSON.stringify({ count }),
  });

const withTemporal = async <Result>(
  { temporalAddress, temporalNamespace }: RunFile,
  work: (client: Client) => Promise<Result>,
): Promise<Result> => {
  const connection = await Connection.connect({ address: temporalAddress });
  try {
    return await work(new Client({ connection, namespace: temporalNamespace }));
  } finally {
    await connection.close();
  }
};

test("data survives SIGKILL of npm start, alone and with its processes, and SIGTERM leaves no process behind", async (t) => {
  const dataDir = await makeDataDir(t);
  const first = runStart(t, dataDir);
  const firstRun = await waitUntilReady(first, dataDir);
  const key = readTestKey(first);
  // The output is not a terminal, so it may be a log.
  t.notRegex(first.output(), /impact_prod_/u);
  t.is((await plantTrees(firstRun, key, 7)).status, 200);
  await withTemporal(firstRun, (client) =>
    client.workflow.start("neverRun", { workflowId: "survivor", taskQueue: "unused" }),
  );

  let killed = first;
  for (const withProcesses of [false, true]) {
    const orphans = await listProcesses(dataDir);
    t.deepEqual([...orphans.keys()].toSorted(), ALL);
    killed.child.kill("SIGKILL");
    if (withProcesses) {
      for (const pid of orphans.values()) {
        process.kill(pid, "SIGKILL");
      }
    }
    await once(killed.child, "exit");
    t.is(await readRunFile(dataDir), null);

    const next = runStart(t, dataDir);
    const run = await waitUntilReady(next, dataDir);
    const running = await listProcesses(dataDir);
    t.deepEqual([...running.keys()].toSorted(), ALL);
    const survivors = [...running.values()].filter((pid) => [...orphans.values()].includes(pid));
    t.deepEqual(survivors, [], "those of the killed start have ended");
    t.is(await countTrees(run, key), 7);
    t.notRegex(next.output(), /test key/u);
    const { status } = await withTemporal(run, (client) =>
      client.workflow.getHandle("survivor").describe(),
    );
    t.is(status.name, "RUNNING");
    killed = next;
  }

  killed.child.kill("SIGTERM");
  t.is(await killed.exitCode, 0);
  t.deepEqual(await namesOfRunning(dataDir), []);
  t.is(await readRunFile(dataDir), null);
});

// These share a folder, because each start creates a database in a new one.
let sharedDataDir: string;
test.before(async () => {
  sharedDataDir = await createDataDir();
});
test.after.always(() => removeDataDir(sharedDataDir));

test("a second start on the same folder is rejected, and a process that dies stops the first", async (t) => {
  const dataDir = sharedDataDir;
  const first = runStart(t, dataDir);
  const run = await waitUntilReady(first, dataDir);
  const second = runStart(t, dataDir);
  t.is(await second.exitCode, 1);
  t.regex(second.output(), /Another `npm start` uses the data folder .* DATA_DIR/u);
  const processes = await listProcesses(dataDir);
  t.deepEqual([...processes.keys()].toSorted(), ALL);
  t.is((await fetch(`${run.apiUrl}/healthz`)).status, 200);

  process.kill(processes.get("Temporal server") ?? 0, "SIGKILL");
  t.is(await first.exitCode, 1);
  const log = join(dataDir, "temporal/temporal.log");
  t.regex(first.output(), /^Temporal server ended unexpectedly \(exit code 137\)/mu);
  t.true(first.output().includes(`see its log ${log}, which the next start renames`));
  await access(log);
  t.deepEqual(await namesOfRunning(dataDir), []);
});

test("the command line finds the service as soon as the API is ready", async (t) => {
  const dataDir = sharedDataDir;
  const port = await findFreePort();
  const apiUrl = `http://127.0.0.1:${port}`;
  const started = runStart(t, dataDir, {
    PORT: String(port),
    STORE_PORT: String(await findFreePort()),
  });
  const isReady = async (): Promise<boolean> => {
    try {
      return (await fetch(`${apiUrl}/readyz`)).status === 200;
    } catch {
      return false;
    }
  };
  await eventually(() => {
    t.is(started.child.exitCode, null, started.output());
    return isReady();
  });
  t.is((await readRunFile(dataDir))?.apiUrl, apiUrl);
  started.child.kill("SIGTERM");
  t.is(await started.exitCode, 0);
  t.is(await readRunFile(dataDir), null);
});

test("a signal ends a start that waits for another migrator", async (t) => {
  const databaseUrl = await createEmptyDatabase(t);
  const other = await openClient(t, databaseUrl);
  await other.query("SELECT pg_advisory_lock(hashtext('schema_migration'))");
  const settings = { DATABASE_URL: databaseUrl };
  const { child, exitCode, output } = runStart(t, await makeDataDir(t), settings);
  await eventually(async () => {
    t.is(child.exitCode, null, output());
    const { rowCount } = await other.query(`
      SELECT FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%pg_advisory_lock%'
    `);
    return rowCount === 1;
  });
  child.kill("SIGINT");
  t.is(await exitCode, 0, output());
  const { rows } = await other.query("SELECT to_regclass('schema_migration') AS migrated");
  t.deepEqual(rows, [{ migrated: null }]);
});

test("everything stops when npm is killed", async (t) => {
  const script = `require("node:child_process").spawn(process.execPath, [${JSON.stringify(START)}], { stdio: "inherit" })`;
  const env = buildEnvironment(sharedDataDir);
  const parent = watch(t, spawn(process.execPath, ["-e", script], { env }));
  await waitUntilReady(parent, sharedDataDir);
  parent.child.kill("SIGKILL");
  // The streams close when the last process that inherited them ends.
  await parent.exitCode;
  t.deepEqual(await namesOfRunning(sharedDataDir), []);
  t.is(await readRunFile(sharedDataDir), null);
});

const requireRejection = async (t: ExecutionContext, settings: Settings, message: RegExp) => {
  const dataDir = await makeDataDir(t);
  const { exitCode, output } = runStart(t, dataDir, settings);
  t.is(await exitCode, 1);
  t.regex(output(), message);
  t.notRegex(output(), /^ +at /mu, "no stack trace");
  t.deepEqual(await namesOfRunning(dataDir), [], "nothing is left running");
};

test("an unreachable database is reported without its password", (t) =>
  requireRejection(
    t,
    { DATABASE_URL: "postgres://someone:secret@127.0.0.1:1/somewhere" },
    /^The database at 127\.0\.0\.1:1\/somewhere cannot be used: .*ECONNREFUSED.*DATABASE_URL/u,
  ));

test("a Temporal CLI that does not run is rejected with the ways to install one", (t) =>
  requireRejection(
    t,
    { TEMPORAL_CLI: "/nowhere/temporal" },
    /TEMPORAL_CLI is set to \/nowhere\/temporal[^]*pip[^]*PATH[^]*TEMPORAL_ADDRESS/u,
  ));

for (const setting of [
  "PORT",
  "WORKER_METRICS_PORT",
  "EMBEDDED_POSTGRES_PORT",
  "EMBEDDED_TEMPORAL_PORT",
]) {
  test(`a port in use is reported with ${setting}`, async (t) => {
    const port = String(await listen(t, createServer()));
    const message = new RegExp(`127.0.0.1:${port} is in use. Set ${setting} to`, "u");
    await requireRejection(t, { [setting]: port }, message);
  });
}
