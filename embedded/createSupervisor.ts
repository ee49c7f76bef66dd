import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";
import { isRunning, stopProcess } from "../runtime/processIdentity.ts";

/** `logFile` is null if the process printed its output. */
type UnexpectedExit = Pick<ManagedProcess, "name" | "logFile"> & { readonly how: string };

export type Supervisor = {
  readonly context: StartContext;
  /** Resolves when a process ends unexpectedly. */
  readonly firstExit: Promise<UnexpectedExit>;
  /** Stops all processes one after the other, the last started first. */
  readonly stopAll: () => Promise<void>;
  /** Stops all processes at the same time, without waiting for them to finish their work. */
  readonly killAll: () => Promise<void>;
};

const records = z.array(
  z.strictObject({
    name: z.string(),
    pid: z.int(),
    startedAt: z.string(),
    stopSignals: z.array(
      z.strictObject({ signal: z.enum(["SIGINT", "SIGTERM", "SIGQUIT"]), waitMs: z.number() }),
    ),
  }),
);

const recordFile = (folder: string): string => join(folder, "processes.json");

/** Written synchronously and atomically, because this process may be killed at any time. */
const writeRecords = (folder: string, processes: readonly ManagedProcess[]): void => {
  const content = processes.map(({ name, identity, stopSignals }) => ({
    name,
    ...identity,
    stopSignals,
  }));
  const file = recordFile(folder);
  writeFileSync(`${file}.new`, JSON.stringify(content), { mode: 0o600 });
  renameSync(`${file}.new`, file);
};

/**
 * Returns the processes of a list. One that is damaged, as after a power failure, counts as empty: no process survives
 * that, and what may run nevertheless is found by its pid file or its port.
 */
const parseRecords = (text: string): z.output<typeof records> => {
  try {
    return records.parse(JSON.parse(text));
  } catch {
    return [];
  }
};

/** Stops the processes that an earlier supervisor of this folder left running when it was killed. */
export const stopLeftovers = async (
  folder: string,
  onProgress: StartContext["onProgress"],
): Promise<void> => {
  let text: string;
  try {
    text = readFileSync(recordFile(folder), "utf8");
  } catch {
    return;
  }
  const leftovers = parseRecords(text).filter(isRunning);
  for (const { name, stopSignals, ...identity } of leftovers.toReversed()) {
    onProgress(`Stopping ${name} (process ${identity.pid}), left running by an earlier start …`);
    await stopProcess(identity, stopSignals);
  }
  rmSync(recordFile(folder), { force: true });
};

/** @param folder stores the list of running processes, for {@link stopLeftovers} after a crash */
export const createSupervisor = (
  folder: string,
  onProgress: StartContext["onProgress"],
): Supervisor => {
  const processes: ManagedProcess[] = [];
  const stopping = new AbortController();
  const firstExit = Promise.withResolvers<UnexpectedExit>();

  const onSpawn = (child: ManagedProcess): void => {
    processes.push(child);
    writeRecords(folder, processes);
    void child.exited.then(({ code, signal }) =>
      stopping.signal.aborted
        ? undefined
        : firstExit.resolve({
            name: child.name,
            logFile: child.logFile,
            how: signal === null ? `exit code ${code}` : `signal ${signal}`,
          }),
    );
  };

  const finish = (): void => {
    rmSync(recordFile(folder), { force: true });
  };

  return {
    context: { onSpawn, onProgress, signal: stopping.signal },
    firstExit: firstExit.promise,
    stopAll: async () => {
      stopping.abort();
      for (const child of processes.toReversed()) {
        await child.stop();
      }
      finish();
    },
    killAll: async () => {
      stopping.abort();
      // Skips the first signal, which lets a process finish its work.
      const kills = processes.map(({ identity, stopSignals }) =>
        stopProcess(identity, stopSignals.slice(1)),
      );
      await Promise.all(kills);
      finish();
    },
  };
};
