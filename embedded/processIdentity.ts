import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A process by its id and its start, because ids are given again to other programs. */
export type ProcessIdentity = { readonly pid: number; readonly startedAt: string };

/** The signals that end a process, in order, and how long each may take before the next one follows. */
export type StopSignals = readonly {
  readonly signal: "SIGINT" | "SIGTERM" | "SIGQUIT";
  readonly waitMs: number;
}[];

const POLL_MS = 25;

const LAST_RESORT = { signal: "SIGKILL", waitMs: 10_000 } as const;

/**
 * When a process started, on Linux: from /proc, since slim images have no ps. A zombie counts as ended; its parent has
 * only not asked how.
 */
const readLinuxStart = (pid: number): string | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The program's name stands in parentheses and may hold anything, so fields are counted from the last one.
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    const [state, ticks] = [fields[0], fields[19]];
    if (state === "Z" || state === "X" || ticks === undefined) {
      return null;
    }
    return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()} ${ticks}`;
  } catch {
    return null;
  }
};

const readPsStart = (pid: number): string | null => {
  try {
    const line = execFileSync("ps", ["-o", "stat=,lstart=", "-p", String(pid)], {
      encoding: "utf8",
      env: { LC_ALL: "C", PATH: "/usr/bin:/bin" },
    }).trim();
    return line === "" || line.startsWith("Z") ? null : line.replace(/^\S+\s+/u, "");
  } catch {
    return null;
  }
};

/** The process that has this id now, or null where none lives. */
export const identifyProcess = (pid: number): ProcessIdentity | null => {
  const startedAt = process.platform === "linux" ? readLinuxStart(pid) : readPsStart(pid);
  return startedAt === null ? null : { pid, startedAt };
};

export const isRunning = ({ pid, startedAt }: ProcessIdentity): boolean =>
  identifyProcess(pid)?.startedAt === startedAt;

/**
 * Waits until the process has ended.
 * @returns whether it has, within the time given
 */
const waitForEnd = async (identity: ProcessIdentity, waitMs: number): Promise<boolean> => {
  const deadline = performance.now() + waitMs;
  while (isRunning(identity)) {
    if (performance.now() > deadline) {
      return false;
    }
    await sleep(POLL_MS);
  }
  return true;
};

/** Ends a process, whether or not it is our child, and waits until it is gone; SIGKILL comes last. */
export const stopProcess = async (
  identity: ProcessIdentity,
  signals: StopSignals,
): Promise<void> => {
  for (const { signal, waitMs } of [...signals, LAST_RESORT]) {
    if (!isRunning(identity)) {
      return;
    }
    try {
      process.kill(identity.pid, signal);
    } catch (error) {
      // It may end between the look and the signal; a process of somebody else (EPERM) is not ours to wait for.
      if (isRunning(identity)) {
        throw error;
      }
      return;
    }
    if (await waitForEnd(identity, waitMs)) {
      return;
    }
  }
};
