import { spawn } from "node:child_process";
import type { ChildProcess, SpawnOptions } from "node:child_process";
import { closeSync, openSync, readFileSync, renameSync } from "node:fs";
import { StartupError } from "../program/startupError.ts";
import { identifyProcess, stopProcess } from "./processIdentity.ts";
import type { ProcessIdentity, StopSignals } from "./processIdentity.ts";

type ProcessExit = { readonly code: number | null; readonly signal: NodeJS.Signals | null };

/** A child process that we started and will stop. */
export type ManagedProcess = {
  readonly name: string;
  readonly identity: ProcessIdentity;
  readonly stopSignals: StopSignals;
  readonly exited: Promise<ProcessExit>;
  readonly stop: () => Promise<void>;
};

/** Where a process is started from: who takes charge of it, who hears of progress, what calls it off. */
export type StartContext = {
  /** Is told of each process as soon as it lives, so that it can be found again after a crash of ours. */
  readonly onSpawn: (child: ManagedProcess) => void;
  readonly onProgress: (line: string) => void;
  readonly calledOff: AbortSignal;
};

/**
 * Takes charge of a child process that was just spawned.
 * @throws StartupError when it could not be spawned at all
 */
export const manageProcess = async (
  name: string,
  child: ChildProcess,
  stopSignals: StopSignals,
  { onSpawn }: StartContext,
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
      exited.then(({ code, signal }) => `it ended at once (${code ?? signal})`),
    ]);
    throw new StartupError(`${name} could not be started: ${reason}.`);
  }
  const managed: ManagedProcess = {
    name,
    identity,
    stopSignals,
    exited,
    stop: () => stopProcess(identity, stopSignals),
  };
  onSpawn(managed);
  return managed;
};

/**
 * Starts a program that writes its output to a log file; the file of the run before is kept beside it. It gets its own
 * process group, because Ctrl-C on a terminal signals the whole group and would end a database before those who use it.
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
  context.calledOff.throwIfAborted();
  try {
    renameSync(logFile, `${logFile}.previous`);
  } catch {
    // The first run has no log yet.
  }
  const log = openSync(logFile, "w", 0o600);
  try {
    const child = spawn(command, args, {
      ...options,
      detached: true,
      stdio: ["ignore", log, log],
    });
    return manageProcess(name, child, stopSignals, context);
  } finally {
    closeSync(log);
  }
};

/** The last lines of a log, indented for a message. */
export const readLogTail = (logFile: string): string =>
  readFileSync(logFile, "utf8")
    .trimEnd()
    .split("\n")
    .slice(-8)
    .map((line) => `  ${line}`)
    .join("\n");
