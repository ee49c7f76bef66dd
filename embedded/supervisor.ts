import { execFileSync, fork, spawn } from "node:child_process";
import type { ChildProcess, SpawnOptions } from "node:child_process";
import { once } from "node:events";
import {
  closeSync,
  constants,
  existsSync,
  openSync,
  readFileSync,
  readSync,
  renameSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { StartupError, errorDetails } from "../runtime/errors.rules.ts";
import { awaitReady } from "../runtime/readyMessage.ts";

/** Opens the named pipe of a folder without waiting for the other end. */
const openPipe = (folder: string, access: number): number => {
  const path = join(folder, "running");
  if (!existsSync(path)) {
    execFileSync("mkfifo", ["-m", "600", path]);
  }
  return openSync(path, access | constants.O_NONBLOCK);
};

const POLL_MS = 50;

type OnProgress = (line: string) => void;

/**
 * Waits until all processes of an earlier start of this folder have ended. If that start was killed, they stop by
 * themselves. Reading a pipe returns its end only if no process has it open for writing.
 */
export const awaitLeftovers = async (folder: string, onProgress: OnProgress): Promise<void> => {
  const pipe = openPipe(folder, constants.O_RDONLY);
  const hasEnded = (): boolean => {
    try {
      return readSync(pipe, Buffer.alloc(1)) === 0;
    } catch {
      return false;
    }
  };
  if (!hasEnded()) {
    const list = `fuser ${join(folder, "running")}`;
    onProgress(`Waiting until the processes of an earlier start have stopped (${list}) …`);
  }
  while (!hasEnded()) {
    await sleep(POLL_MS);
  }
  closeSync(pipe);
};

/** @param folder has the pipe that tells whether a process still runs */
export const createSupervisor = (folder: string, onProgress: OnProgress) => {
  /** What stops the processes, in the order in which they were started. */
  const stops: (() => Promise<void>)[] = [];
  const stopping = new AbortController();
  const firstExit = Promise.withResolvers<{
    readonly name: string;
    readonly how: string;
    readonly logFile: string | null;
  }>();

  /**
   * Registers a child process that was just spawned with `pipe`, and leads a process group.
   * @param ask asks it to stop; its process group is killed if it has not ended after `waitMs`
   * @param logFile has its output; null if that is printed
   * @throws StartupError if it could not be spawned
   */
  const manage = async (
    name: string,
    child: ChildProcess,
    { ask, waitMs }: { readonly ask: () => void; readonly waitMs: number },
    logFile: string | null = null,
  ) => {
    child.once("exit", (code, signal) => {
      if (!stopping.signal.aborted) {
        const how = signal === null ? `exit code ${code}` : `signal ${signal}`;
        firstExit.resolve({ name, logFile, how });
      }
    });
    await once(child, "spawn").catch((error: unknown) => {
      throw new StartupError(`${name} could not be started: ${errorDetails(error).message}.`);
    });
    const pid = child.pid ?? 0;
    const isRunning = (): boolean => child.exitCode === null && child.signalCode === null;
    const stop = async (): Promise<void> => {
      if (isRunning()) {
        const exited = once(child, "exit");
        ask();
        const timer = setTimeout(() => process.kill(-pid, "SIGKILL"), waitMs);
        await exited;
        clearTimeout(timer);
      }
    };
    stops.push(stop);
    return { pid, isRunning, stop };
  };

  return {
    context: {
      manage,
      /** A file descriptor that each child process inherits, for `awaitLeftovers` of a later start. */
      pipe: openPipe(folder, constants.O_RDWR),
      onProgress,
      /** Aborts when the start is cancelled. */
      signal: stopping.signal,
    },
    /** Resolves when a process ends unexpectedly. */
    firstExit: firstExit.promise,
    /** Stops all processes one after the other, the last started first. */
    stopAll: async (): Promise<void> => {
      stopping.abort();
      for (const stop of stops.toReversed()) {
        await stop();
      }
    },
  };
};

export type StartContext = ReturnType<typeof createSupervisor>["context"];

/**
 * Runs a program in a shell, and signals it when the shell's input ends: this process closes the input, or the system does,
 * however this process ends. A program that is only starting may not have noticed the signal, so it is repeated; one that does
 * not end is killed.
 */
const GUARD = `
  exec 9<&0
  signal=$1; shift
  "$@" 9<&- &
  program=$!
  {
    read -r _ <&9
    for _ in 1 2 3 4 5 6; do kill -s "$signal" "$program" || exit; sleep 5; done
    kill -s KILL "$program"
  } 3>&- 2> /dev/null &
  exec 9<&-
  wait "$program"
`;

const TAIL_LINES = 20;

/** Returns the last lines of a log, indented for an error message. */
export const readLogTail = (logFile: string): string =>
  readFileSync(logFile, "utf8")
    .trimEnd()
    .split("\n")
    .slice(-TAIL_LINES)
    .map((line) => `  ${line}`)
    .join("\n");

/**
 * Starts a server with its output in a log file, and waits until it is ready; the previous log file is renamed. The server
 * gets its own process group, because Ctrl-C signals the whole group of the terminal and would stop a database before its
 * clients.
 * @param options.signal asks it to stop, also if this process is killed
 * @param options.attempt returns null while the server is not ready; it is repeated until it returns what only a server that
 *   is ready gives it
 * @throws StartupError with the end of the log if the server ends, or takes too long; it is stopped then
 */
export const startServer = async <Ready>(
  {
    name,
    command,
    args,
    logFile,
    signal,
    stopMs,
    readyMs,
    attempt,
    ...options
  }: Pick<SpawnOptions, "cwd" | "env" | "uid" | "gid"> & {
    readonly name: string;
    readonly command: string;
    readonly args: readonly string[];
    readonly logFile: string;
    readonly signal: "INT" | "TERM";
    readonly stopMs: number;
    readonly readyMs: number;
    readonly attempt: () => Promise<Ready | null>;
  },
  context: StartContext,
) => {
  context.signal.throwIfAborted();
  try {
    renameSync(logFile, `${logFile}.previous`);
  } catch {
    // There is no log before the first run.
  }
  const log = openSync(logFile, "w", 0o600);
  const child = spawn("/bin/sh", ["-c", GUARD, "sh", signal, command, ...args], {
    ...options,
    detached: true,
    stdio: ["pipe", log, log, context.pipe],
  });
  closeSync(log);
  const ask = (): void => void child.stdin?.end();
  const server = await context.manage(name, child, { ask, waitMs: stopMs }, logFile);
  const deadline = performance.now() + readyMs;
  while (server.isRunning() && performance.now() < deadline) {
    const ready = await attempt();
    if (ready !== null) {
      return { server, ready };
    }
    await sleep(POLL_MS);
  }
  const problem = server.isRunning()
    ? `did not respond within ${readyMs / 1000} seconds`
    : "ended during startup";
  await server.stop();
  throw new StartupError(`${name} ${problem}:\n${readLogTail(logFile)}`);
};

/** A young generation of 4 MB instead of 16 saves a process that has been busy 30 MB. */
const EXEC_ARGS = ["--max-semi-space-size=4"];
/** glibc returns memory to the system when it is freed, which saves a worker 25 to 50 MB. */
const ENVIRONMENT = { MALLOC_TRIM_THRESHOLD_: "131072" };

/**
 * Starts a program of the service and waits until it reports over IPC that it is ready. If this process dies, the program
 * notices the closed channel and shuts down. It has its own process group, as a server.
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
    env: { ...ENVIRONMENT, ...env },
    execArgv: [...process.execArgv, ...EXEC_ARGS],
    detached: true,
    stdio: ["ignore", "inherit", "inherit", "ipc", context.pipe],
  });
  const [urls] = await Promise.all([
    awaitReady(child, name),
    // The worker gives running activities 20 seconds to finish.
    context.manage(name, child, { ask: () => child.kill(), waitMs: 30_000 }),
  ]);
  return urls;
};
