import { fork, spawn } from "node:child_process";
import type { ChildProcess, SpawnOptions } from "node:child_process";
import { once } from "node:events";
import { closeSync, openSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import { identifyProcess, isRunning, stopProcess } from "../runtime/processIdentity.ts";
import type { ProcessIdentity, Stop } from "../runtime/processIdentity.ts";
import { awaitReady } from "../runtime/readyMessage.ts";

/** A child process that the supervisor stops. */
export type ManagedProcess = {
  readonly name: string;
  readonly identity: ProcessIdentity;
  /** Null if its output is printed. */
  readonly logFile: string | null;
  readonly stop: () => Promise<void>;
};

type UnexpectedExit = Pick<ManagedProcess, "name" | "logFile"> & { readonly how: string };

export type StartContext = {
  /**
   * Registers a child process that was just spawned.
   * @param logFile has its output; null if that is printed
   * @throws StartupError if it could not be spawned
   */
  readonly manage: (
    name: string,
    child: ChildProcess,
    stop: Stop,
    logFile?: string | null,
  ) => Promise<ManagedProcess>;
  readonly onProgress: (line: string) => void;
  /** Aborts when the start is cancelled. */
  readonly signal: AbortSignal;
};

export type Supervisor = {
  readonly context: StartContext;
  /** Resolves when a process ends unexpectedly. */
  readonly firstExit: Promise<UnexpectedExit>;
  /** Stops all processes one after the other, the last started first. */
  readonly stopAll: () => Promise<void>;
};

const records = z.array(
  z.strictObject({
    name: z.string(),
    pid: z.int(),
    startedAt: z.string(),
    signal: z.enum(["SIGINT", "SIGTERM"]),
    waitMs: z.number(),
  }),
);
type Records = z.output<typeof records>;

const recordFile = (folder: string): string => join(folder, "processes.json");

/**
 * Returns the processes that were running when a supervisor of this folder was last alive. A list that is damaged, as after
 * a power failure, counts as empty: no process survives that.
 */
const readRecords = (folder: string): Records => {
  try {
    return records.parse(JSON.parse(readFileSync(recordFile(folder), "utf8")));
  } catch {
    return [];
  }
};

const removeRecords = (folder: string): void => rmSync(recordFile(folder), { force: true });

/** Stops the processes that an earlier supervisor of this folder left running when it was killed. */
export const stopLeftovers = async (
  folder: string,
  onProgress: StartContext["onProgress"],
): Promise<void> => {
  const earlier = readRecords(folder);
  for (const { name, ...leftover } of earlier.filter(isRunning).toReversed()) {
    onProgress(`Stopping ${name} (process ${leftover.pid}), left running by an earlier start …`);
    await stopProcess(leftover, leftover);
  }
  if (earlier.length > 0) {
    removeRecords(folder);
  }
};

/** @param folder stores the list of running processes, for {@link stopLeftovers} after a crash */
export const createSupervisor = (
  folder: string,
  onProgress: StartContext["onProgress"],
): Supervisor => {
  const processes: ManagedProcess[] = [];
  const running: Records = [];
  const stopping = new AbortController();
  const firstExit = Promise.withResolvers<UnexpectedExit>();

  const manage: StartContext["manage"] = async (name, child, stop, logFile = null) => {
    child.once("exit", (code, signal) => {
      if (!stopping.signal.aborted) {
        const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
        firstExit.resolve({ name, logFile, how });
      }
    });
    await once(child, "spawn").catch((error: unknown) => {
      throw new StartupError(`${name} could not be started: ${errorDetails(error).message}.`);
    });
    const identity = identifyProcess(child.pid ?? 0);
    if (identity === null) {
      throw new StartupError(`${name} ended immediately (${child.exitCode ?? child.signalCode}).`);
    }
    const managed = { name, identity, logFile, stop: () => stopProcess(identity, stop) };
    processes.push(managed);
    running.push({ name, ...identity, ...stop });
    // Synchronously and atomically, because this process may be killed at any time.
    const file = recordFile(folder);
    writeFileSync(`${file}.new`, JSON.stringify(running), { mode: 0o600 });
    renameSync(`${file}.new`, file);
    return managed;
  };

  return {
    context: { manage, onProgress, signal: stopping.signal },
    firstExit: firstExit.promise,
    stopAll: async () => {
      stopping.abort();
      for (const child of processes.toReversed()) {
        await child.stop();
      }
      removeRecords(folder);
    },
  };
};

/**
 * Starts a program with its output in a log file; the previous log file is renamed. The program gets its own process
 * group, because Ctrl-C signals the whole group of the terminal and would stop a database before its clients.
 */
export const spawnWithLog = ({
  name,
  command,
  args,
  options,
  logFile,
  stop,
  context,
}: {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly options: Pick<SpawnOptions, "cwd" | "env" | "uid" | "gid">;
  readonly logFile: string;
  readonly stop: Stop;
  readonly context: StartContext;
}): Promise<ManagedProcess> => {
  context.signal.throwIfAborted();
  try {
    renameSync(logFile, `${logFile}.previous`);
  } catch {
    // There is no log before the first run.
  }
  const log = openSync(logFile, "w", 0o600);
  try {
    const child = spawn(command, args, { ...options, detached: true, stdio: ["ignore", log, log] });
    return context.manage(name, child, stop, logFile);
  } finally {
    closeSync(log);
  }
};

/** Enough for the reason and the messages of a shutdown that follow it. */
const TAIL_LINES = 20;

/** Returns the last lines of a log, indented for an error message. */
export const readLogTail = (logFile: string): string =>
  readFileSync(logFile, "utf8")
    .trimEnd()
    .split("\n")
    .slice(-TAIL_LINES)
    .map((line) => `  ${line}`)
    .join("\n");

/** A young generation of 4 MB instead of 16 saves a process that has been busy 30 MB. */
const EXEC_ARGS = ["--max-semi-space-size=4"];

/**
 * Starts a program of the service and waits until it reports over IPC that it is ready. If this process dies, the program
 * notices the closed channel and shuts down. It has its own process group, so that Ctrl-C does not stop it out of order.
 * @returns the URLs that it serves, by name
 * @throws StartupError if it exits or does not become ready in time
 */
export const startRole = async (
  name: string,
  module: string,
  env: NodeJS.ProcessEnv,
  context: StartContext,
  args: readonly string[] = [],
): Promise<Readonly<Record<string, string>>> => {
  context.signal.throwIfAborted();
  const child = fork(module, args, {
    env,
    execArgv: [...process.execArgv, ...EXEC_ARGS],
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const [urls] = await Promise.all([
    awaitReady(child, name),
    // The worker gives running activities 20 seconds to finish.
    context.manage(name, child, { signal: "SIGTERM", waitMs: 30_000 }),
  ]);
  return urls;
};
