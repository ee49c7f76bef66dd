import { spawn, fork } from "node:child_process";
import type { ChildProcess, SpawnOptions } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync } from "node:fs";
import { StartupError } from "../runtime/errors.rules.ts";
import { identifyProcess, stopProcess } from "../runtime/processIdentity.ts";
import type { ProcessIdentity, StopSignals } from "../runtime/processIdentity.ts";
import { awaitReady } from "../runtime/readyMessage.ts";

type ProcessExit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

/** A child process that the supervisor stops. */
export type ManagedProcess = {
  readonly name: string;
  readonly identity: ProcessIdentity;
  /** Null if its output is printed. */
  readonly logFile: string | null;
  readonly stopSignals: StopSignals;
  readonly exited: Promise<ProcessExit>;
  readonly stop: () => Promise<void>;
};

export type StartContext = {
  /** Called as soon as a process runs, so that it can be found again if this process crashes. */
  readonly onSpawn: (child: ManagedProcess) => void;
  readonly onProgress: (line: string) => void;
  /** Aborts when the start is cancelled. */
  readonly signal: AbortSignal;
};

/**
 * Registers a child process that was just spawned.
 * @param logFile has its output; null if that is printed
 * @throws StartupError if it could not be spawned
 */
export const manageProcess = async (
  name: string,
  child: ChildProcess,
  stopSignals: StopSignals,
  { onSpawn }: StartContext,
  logFile: string | null = null,
): Promise<ManagedProcess> => {
  const exited = new Promise<ProcessExit>((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
  });
  const identity = child.pid === undefined ? null : identifyProcess(child.pid);
  if (identity === null) {
    const reason = await Promise.race([
      new Promise<string>((resolve) => {
        child.once("error", ({ message }) => resolve(message));
      }),
      exited.then(({ code, signal }) => `it exited immediately (${code ?? signal})`),
    ]);
    throw new StartupError(`${name} could not be started: ${reason}.`);
  }
  const managed: ManagedProcess = {
    name,
    identity,
    logFile,
    stopSignals,
    exited,
    stop: () => stopProcess(identity, stopSignals),
  };
  onSpawn(managed);
  return managed;
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
  stopSignals,
  context,
}: {
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  readonly options: Pick<SpawnOptions, "cwd" | "env" | "uid" | "gid">;
  readonly logFile: string;
  readonly stopSignals: StopSignals;
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
    const child = spawn(command, args, {
      ...options,
      detached: true,
      stdio: ["ignore", log, log],
    });
    return manageProcess(name, child, stopSignals, context, logFile);
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

/** A program of the service that runs as a child process: its display name and main module. */
export type Role = { readonly name: string; readonly module: string };

export type RunningRole = {
  readonly process: ManagedProcess;
  /** The URLs that it serves, by name, as it reports them when it is ready. */
  readonly urls: Readonly<Record<string, string>>;
};

/**
 * Starts a program and waits until it reports over IPC that it is ready. If this process dies, the program notices the
 * closed channel and shuts down. It has its own process group, so that Ctrl-C does not stop it out of order.
 * @throws StartupError if it exits or does not become ready in time
 */
export const startRole = async (
  { name, module }: Role,
  environment: NodeJS.ProcessEnv,
  context: StartContext,
): Promise<RunningRole> => {
  context.signal.throwIfAborted();
  const child = fork(module, {
    env: environment,
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc"],
  });
  const process = await manageProcess(
    name,
    child,
    // The worker gives running activities 20 seconds to finish.
    [{ signal: "SIGTERM", waitMs: 30_000 }],
    context,
  );
  return { process, urls: await awaitReady(child, name) };
};
