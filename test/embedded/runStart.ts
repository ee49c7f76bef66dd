import { spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { isRunning } from "../../embedded/processIdentity.ts";
import type { ProcessIdentity } from "../../embedded/processIdentity.ts";
import { readRunFile } from "../../embedded/runFile.ts";
import type { RunFile } from "../../embedded/runFile.ts";
import { stopLeftovers } from "../../embedded/supervisor.ts";

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

/** What one `npm start` says and how it ends. */
export type StartedProcess = {
  readonly child: ChildProcess;
  /** All that it wrote so far, both streams. */
  readonly output: () => string;
  readonly exitCode: Promise<number | null>;
};

/** A data folder that is emptied of processes and removed at the end. */
export const makeDataDir = async (t: ExecutionContext): Promise<string> => {
  const folder = await mkdtemp(join(tmpdir(), "impact-start-"));
  t.teardown(async () => {
    await stopLeftovers(folder, () => {});
    await rm(folder, { recursive: true, force: true });
  });
  return folder;
};

/** The environment of a start that disturbs nobody: any ports, and nothing of the test run's own services. */
export const buildEnvironment = (dataDir: string, settings: Settings = {}): NodeJS.ProcessEnv => {
  const own = Object.entries(process.env).filter(
    ([name]) => !/^(?:DATABASE_|TEMPORAL_(?!CLI)|STRIPE_|NODE_)/u.test(name),
  );
  return { ...Object.fromEntries(own), ...ANY_PORTS, DATA_DIR: dataDir, ...settings };
};

/** Watches a process that is, or starts, embedded/main.ts. */
export const watch = (t: ExecutionContext, child: ChildProcess): StartedProcess => {
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
): StartedProcess =>
  watch(
    t,
    // Nor shall it outlive a test run that is interrupted.
    spawn(process.execPath, [START, "--stop-with-parent"], {
      env: buildEnvironment(dataDir, settings),
    }),
  );

/** Waits until the start is ready. @returns what its run file says */
export const waitUntilReady = async (
  { child, output }: StartedProcess,
  dataDir: string,
): Promise<RunFile> => {
  while (!/^ready$/mu.test(output())) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`It ended before it was ready:\n${output()}`);
    }
    await sleep(50);
  }
  const run = await readRunFile(dataDir);
  if (run === null) {
    throw new Error(`It is ready without a run file:\n${output()}`);
  }
  return run;
};

const records = z.array(z.object({ name: z.string(), pid: z.int(), startedAt: z.string() }));

/** The processes that a start has, by their names. */
export const readProcesses = async (
  dataDir: string,
): Promise<ReadonlyMap<string, ProcessIdentity>> => {
  const text = await readFile(join(dataDir, "processes.json"), "utf8");
  const list = records.parse(JSON.parse(text));
  return new Map(list.map(({ name, pid, startedAt }) => [name, { pid, startedAt }]));
};

/** The names of those that still run. */
export const namesOfRunning = (processes: ReadonlyMap<string, ProcessIdentity>): string[] =>
  [...processes].filter(([, identity]) => isRunning(identity)).map(([name]) => name);
