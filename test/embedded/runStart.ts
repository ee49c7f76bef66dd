import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { ExecutionContext } from "ava";
import { readRunFile } from "../../runtime/runFile.ts";
import { awaitLeftovers } from "../../embedded/supervisor.ts";

export const START = fileURLToPath(new URL("../../embedded/main.ts", import.meta.url));

const ANY_PORTS = {
  PORT: "0",
  STORE_PORT: "0",
  METRICS_PORT: "0",
  WORKER_METRICS_PORT: "0",
  EMBEDDED_POSTGRES_PORT: "0",
  EMBEDDED_TEMPORAL_PORT: "0",
  EMBEDDED_TEMPORAL_UI_PORT: "0",
  LOG_FORMAT: "json",
};

export type Settings = Readonly<Record<string, string>>;

export type StartedProcess = ReturnType<typeof watch>;

export const createDataDir = (): Promise<string> => mkdtemp(join(tmpdir(), "impact-start-"));

/** Removes a data folder once its processes and those of its demo have ended. */
export const removeDataDir = async (folder: string): Promise<void> => {
  for (const used of [folder, join(folder, "demo")].filter((path) => existsSync(path))) {
    await awaitLeftovers(used, () => {});
  }
  // A start that failed may have left initdb running for a second.
  await rm(folder, { recursive: true, force: true, maxRetries: 20 });
};

/** Creates a data folder that is removed at the end of the test. */
export const makeDataDir = async (t: ExecutionContext): Promise<string> => {
  const folder = await createDataDir();
  t.teardown(() => removeDataDir(folder));
  return folder;
};

/** Returns the environment of a start with free ports and without the services of the test run. */
export const buildEnvironment = (dataDir: string, settings: Settings = {}): NodeJS.ProcessEnv => {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(?:DATABASE_|TEMPORAL_(?!CLI)|STRIPE_|NODE_(?!COMPILE_CACHE))/u.test(name),
  );
  return { ...Object.fromEntries(own), ...ANY_PORTS, DATA_DIR: dataDir, ...settings };
};

/** Collects the output of a process that is, or starts, embedded/main.ts. */
export const watch = (t: ExecutionContext, child: ChildProcess) => {
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const exitCode = new Promise<number | null>((resolve) => {
    child.once("close", (code) => resolve(code));
  });
  t.teardown(async () => {
    child.kill("SIGKILL");
    await exitCode;
  });
  return { child, output: () => output, exitCode };
};

export const runStart = (
  t: ExecutionContext,
  dataDir: string,
  settings: Settings = {},
  args: readonly string[] = [],
) =>
  watch(t, spawn(process.execPath, [START, ...args], { env: buildEnvironment(dataDir, settings) }));

/** Waits until the start is ready and returns its run file. */
export const waitUntilReady = async ({ child, output }: StartedProcess, dataDir: string) => {
  while (!/^ready$/mu.test(output())) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`npm start ended before it was ready:\n${output()}`);
    }
    await sleep(50);
  }
  const run = await readRunFile(dataDir);
  if (run === null) {
    throw new Error(`npm start is ready without a run file:\n${output()}`);
  }
  return run;
};
