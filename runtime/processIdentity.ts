import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

/** A process by its id and start time, because the system reuses ids. */
export type ProcessIdentity = { readonly pid: number; readonly startedAt: string };

/** The signal that asks a process to stop, and how long to wait before it is killed. */
export type Stop = { readonly signal: "SIGINT" | "SIGTERM"; readonly waitMs: number };

const POLL_MS = 25;

const LAST_RESORT = { signal: "SIGKILL", waitMs: 10_000 } as const;

/**
 * Returns when a process started, on Linux. It reads /proc, because slim images have no ps. A zombie has ended; its parent
 * has not reaped it.
 */
const readLinuxStart = (pid: number): string | null => {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The program's name is in parentheses and may contain any character, so fields are counted from the last one.
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

/** Returns the process that currently has this id, or null if there is none. */
export const identifyProcess = (pid: number): ProcessIdentity | null => {
  const startedAt = process.platform === "linux" ? readLinuxStart(pid) : readPsStart(pid);
  return startedAt === null ? null : { pid, startedAt };
};

export const isRunning = ({ pid, startedAt }: ProcessIdentity): boolean =>
  identifyProcess(pid)?.startedAt === startedAt;

/** @returns whether the process ended within the time */
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

/** Stops a process, which need not be a child, and waits until it has ended. */
export const stopProcess = async (
  identity: ProcessIdentity,
  { signal, waitMs }: Stop,
): Promise<void> => {
  for (const step of [{ signal, waitMs }, LAST_RESORT]) {
    if (!isRunning(identity)) {
      return;
    }
    try {
      process.kill(identity.pid, step.signal);
    } catch (error) {
      // It may have ended between the check and the signal. EPERM means that another user's process has the id.
      if (isRunning(identity)) {
        throw error;
      }
      return;
    }
    if (await waitForEnd(identity, step.waitMs)) {
      return;
    }
  }
};
