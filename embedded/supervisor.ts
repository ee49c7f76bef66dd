import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import type { ManagedProcess, StartContext } from "./managedProcess.ts";
import { isRunning, stopProcess } from "./processIdentity.ts";

export type Supervisor = {
  readonly context: StartContext;
  /** Settles with the first process that ends although nobody asked it to. */
  readonly firstLoss: Promise<{ readonly name: string; readonly how: string }>;
  /** Ends all processes, the last started one first, each before the next. */
  readonly stopAll: () => Promise<void>;
  /** Ends all processes at once, without a chance to finish anything. */
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

/** Written at once and whole, because the next thing that happens to us may be SIGKILL. */
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

/** Ends the processes that an earlier supervisor of this folder left behind when it was killed. */
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
  const leftovers = records.parse(JSON.parse(text)).filter(isRunning);
  for (const { name, stopSignals, ...identity } of leftovers.toReversed()) {
    onProgress(`Stopping ${name} (process ${identity.pid}), which an earlier start left running …`);
    await stopProcess(identity, stopSignals);
  }
  rmSync(recordFile(folder), { force: true });
};

/** @param folder keeps the list of what runs, for {@link stopLeftovers} after a crash of ours */
export const createSupervisor = (
  folder: string,
  onProgress: StartContext["onProgress"],
): Supervisor => {
  const processes: ManagedProcess[] = [];
  const callOff = new AbortController();
  const loss = Promise.withResolvers<{ readonly name: string; readonly how: string }>();

  const onSpawn = (child: ManagedProcess): void => {
    processes.push(child);
    writeRecords(folder, processes);
    void child.exited.then(({ code, signal }) =>
      callOff.signal.aborted
        ? undefined
        : loss.resolve({
            name: child.name,
            how: signal === null ? `exit code ${code}` : `signal ${signal}`,
          }),
    );
  };

  const finish = (): void => {
    rmSync(recordFile(folder), { force: true });
  };

  return {
    context: { onSpawn, onProgress, calledOff: callOff.signal },
    firstLoss: loss.promise,
    stopAll: async () => {
      callOff.abort();
      for (const child of processes.toReversed()) {
        await child.stop();
      }
      finish();
    },
    killAll: async () => {
      callOff.abort();
      // Without the first signal, which is the patient one.
      const kills = processes.map(({ identity, stopSignals }) =>
        stopProcess(identity, stopSignals.slice(1)),
      );
      await Promise.all(kills);
      finish();
    },
  };
};
