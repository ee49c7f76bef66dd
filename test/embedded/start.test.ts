import { spawn } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, Connection } from "@temporalio/client";
import test from "ava";
import { z } from "zod";
import type { RunFile } from "../../embedded/runFile.ts";
import { readRunFile } from "../../embedded/runFile.ts";
import type { Settings, StartedProcess } from "./runStart.ts";
import {
  START,
  buildEnvironment,
  makeDataDir,
  namesOfRunning,
  readProcesses,
  runStart,
  waitUntilReady,
  watch,
} from "./runStart.ts";

const ALL = ["PostgreSQL", "Temporal server", "worker", "API"];

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

const survives = test.macro({
  title: (_, killed: string) => `data outlive SIGKILL of ${killed}, and SIGTERM leaves nothing`,
  exec: async (t, killed: "npm start alone" | "npm start and all that it started") => {
    const dataDir = await makeDataDir(t);
    const first = runStart(t, dataDir);
    const firstRun = await waitUntilReady(first, dataDir);
    const key = readTestKey(first);
    t.is((await plantTrees(firstRun, key, 7)).status, 200);
    await withTemporal(firstRun, (client) =>
      client.workflow.start("nobodyRunsThis", { workflowId: "survivor", taskQueue: "nobody" }),
    );
    const orphans = await readProcesses(dataDir);
    t.deepEqual(namesOfRunning(orphans), ALL);

    first.child.kill("SIGKILL");
    if (killed === "npm start and all that it started") {
      for (const { pid } of orphans.values()) {
        process.kill(pid, "SIGKILL");
      }
    }
    await once(first.child, "exit");
    t.is(await readRunFile(dataDir), null);

    const second = runStart(t, dataDir);
    const secondRun = await waitUntilReady(second, dataDir);
    t.deepEqual(namesOfRunning(orphans), []);
    t.is(await countTrees(secondRun, key), 7);
    t.notRegex(second.output(), /test key/u);
    const { status } = await withTemporal(secondRun, (client) =>
      client.workflow.getHandle("survivor").describe(),
    );
    t.is(status.name, "RUNNING");

    const processes = await readProcesses(dataDir);
    second.child.kill("SIGTERM");
    t.is(await second.exitCode, 0);
    t.deepEqual(namesOfRunning(processes), []);
    t.is(await readRunFile(dataDir), null);
  },
});

test.serial(survives, "npm start alone");
test.serial(survives, "npm start and all that it started");

test.serial("a second start on the same folder is refused and the first goes on", async (t) => {
  const dataDir = await makeDataDir(t);
  const first = runStart(t, dataDir);
  const run = await waitUntilReady(first, dataDir);
  const second = runStart(t, dataDir);
  t.is(await second.exitCode, 1);
  t.regex(second.output(), /Another `npm start` uses the data folder .* DATA_DIR/u);
  t.deepEqual(namesOfRunning(await readProcesses(dataDir)), ALL);
  t.is((await fetch(`${run.apiUrl}/healthz`)).status, 200);
});

test.serial("a part that dies is named, and the rest is stopped with an exit code", async (t) => {
  const dataDir = await makeDataDir(t);
  const started = runStart(t, dataDir);
  await waitUntilReady(started, dataDir);
  const processes = await readProcesses(dataDir);
  process.kill(processes.get("Temporal server")?.pid ?? 0, "SIGKILL");
  t.is(await started.exitCode, 1);
  t.regex(started.output(), /^Temporal server ended unexpectedly \(signal SIGKILL\)/mu);
  t.deepEqual(namesOfRunning(processes), []);
});

test.serial("a second signal ends what does not stop by itself", async (t) => {
  const dataDir = await makeDataDir(t);
  const started = runStart(t, dataDir);
  await waitUntilReady(started, dataDir);
  const processes = await readProcesses(dataDir);
  process.kill(processes.get("API")?.pid ?? 0, "SIGSTOP");
  started.child.kill("SIGINT");
  while (!started.output().includes("Stopping …")) {
    await sleep(50);
  }
  // Signals within a second count as one, because npm passes on what the terminal has sent already.
  await sleep(1500);
  started.child.kill("SIGINT");
  t.is(await started.exitCode, 1);
  t.deepEqual(namesOfRunning(processes), []);
});

test.serial("what npm started ends when npm is killed", async (t) => {
  const dataDir = await makeDataDir(t);
  const script = `require("node:child_process").spawn(process.execPath, [${JSON.stringify(START)}, "--stop-with-parent"], { stdio: "inherit" })`;
  const parent = watch(
    t,
    spawn(process.execPath, ["-e", script], { env: buildEnvironment(dataDir) }),
  );
  await waitUntilReady(parent, dataDir);
  const processes = await readProcesses(dataDir);
  parent.child.kill("SIGKILL");
  // Its streams close when nobody holds them any more.
  await parent.exitCode;
  t.deepEqual(namesOfRunning(processes), []);
  t.is(await readRunFile(dataDir), null);
});

const refuses = test.macro(async (t, settings: Settings, message: RegExp) => {
  const dataDir = await makeDataDir(t);
  const { exitCode, output } = runStart(t, dataDir, settings);
  t.is(await exitCode, 1);
  t.regex(output(), message);
  t.notRegex(output(), /^ +at /mu, "no stack trace");
  await t.throwsAsync(readProcesses(dataDir), { code: "ENOENT" }, "nothing is left running");
});

test.serial(
  "malformed settings are all named",
  refuses,
  { PORT: "eighty", EMBEDDED_POSTGRES_PORT: "99999" },
  /PORT must be a port number[^]*EMBEDDED_POSTGRES_PORT must be a port number/u,
);
test.serial(
  "a database that cannot be reached is named without its password",
  refuses,
  { DATABASE_URL: "postgres://someone:secret@127.0.0.1:1/somewhere" },
  /^The database postgres:\/\/someone@127\.0\.0\.1:1\/somewhere cannot be used: .*ECONNREFUSED[^]*DATABASE_URL/u,
);
test.serial(
  "a Temporal that cannot be reached is named",
  refuses,
  { TEMPORAL_ADDRESS: "127.0.0.1:1" },
  /^Temporal at 127\.0\.0\.1:1 \(TEMPORAL_ADDRESS\) cannot be reached/mu,
);
test.serial(
  "a Temporal CLI that does not run is refused with the ways to get one",
  refuses,
  { TEMPORAL_CLI: "/nowhere/temporal" },
  /TEMPORAL_CLI is set to \/nowhere\/temporal[^]*pip[^]*PATH[^]*TEMPORAL_ADDRESS/u,
);

for (const setting of [
  "PORT",
  "WORKER_METRICS_PORT",
  "EMBEDDED_POSTGRES_PORT",
  "EMBEDDED_TEMPORAL_PORT",
]) {
  test.serial(`a port in use is refused and ${setting} is named`, async (t) => {
    const taken = createServer().listen(0, "127.0.0.1");
    await once(taken, "listening");
    t.teardown(() => taken.close());
    const address = taken.address();
    const port = typeof address === "object" && address !== null ? String(address.port) : "";
    const dataDir = await makeDataDir(t);
    const { exitCode, output } = runStart(t, dataDir, { [setting]: port });
    t.is(await exitCode, 1);
    t.regex(output(), new RegExp(`Port ${port} .* is in use.* set ${setting} to`, "u"));
    t.notRegex(output(), /^ +at /mu);
  });
}
