import { readdir, readFile } from "node:fs/promises";

/** In milliseconds; the same on all common systems. */
const TICK_MS = 10;

/** CPU time of this machine in clock ticks: busy with anything, busy with our processes, and in total. */
type Busy = { readonly all: number; readonly own: number; readonly total: number };

const readOrNull = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch(() => null);

/** A process, with its CPU time and that of its children that have ended. */
type ProcessTime = {
  readonly pid: number;
  readonly name: string;
  readonly parent: number;
  readonly ticks: number;
};

const readProcess = async (pid: string): Promise<ProcessTime | null> => {
  const stat = await readOrNull(`/proc/${pid}/stat`);
  // The second field is the name in parentheses, which may contain spaces. Split after it, so index 0 is the third field.
  const fields = stat?.split(") ").at(-1)?.split(" ");
  if (!stat || !fields) {
    return null;
  }
  const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number);
  return {
    pid: Number(pid),
    name: stat.slice(stat.indexOf("(") + 1, stat.lastIndexOf(")")),
    parent: Number(fields[1]),
    ticks: (user ?? 0) + (system ?? 0) + (endedUser ?? 0) + (endedSystem ?? 0),
  };
};

/** Returns this process and its descendants. */
const readOwnProcesses = async (): Promise<readonly ProcessTime[]> => {
  const names = (await readdir("/proc")).filter((name) => /^\d+$/u.test(name));
  const processes = (await Promise.all(names.map(readProcess))).filter((found) => found !== null);
  const own: ProcessTime[] = [];
  const waiting = new Set([process.pid]);
  for (const pid of waiting) {
    for (const each of processes) {
      if (each.pid === pid) {
        own.push(each);
      } else if (each.parent === pid) {
        waiting.add(each.pid);
      }
    }
  }
  return own;
};

const sumTicks = (processes: readonly ProcessTime[]): number =>
  processes.reduce((sum, { ticks }) => sum + ticks, 0);

const readBusy = async (): Promise<Busy | null> => {
  const line = (await readOrNull("/proc/stat"))?.split("\n")[0];
  if (line === undefined) {
    return null;
  }
  const ticks = line.trim().split(/\s+/u).slice(1, 9).map(Number);
  const total = ticks.reduce((sum, each) => sum + each, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { all: total - idle, total, own: sumTicks(await readOwnProcesses()) };
};

/**
 * Starts to measure the CPU use of other processes.
 * @returns a function that returns their share of the CPU since then, from 0 to 1; null if the system does not report it
 */
export const watchMachine = async (): Promise<() => Promise<number | null>> => {
  const before = await readBusy();
  return async () => {
    const after = await readBusy();
    return before && after
      ? Math.max(0, after.all - before.all - (after.own - before.own)) /
          Math.max(1, after.total - before.total)
      : null;
  };
};

/**
 * Starts to measure the CPU time of some of this process's descendants.
 * @param of their ids, or the beginning of their name
 * @returns a function that returns their CPU time since then, in milliseconds
 */
export const watchCpu = async (of: readonly number[] | string): Promise<() => Promise<number>> => {
  const read = async (): Promise<number> => {
    const processes = await readOwnProcesses();
    const watched = processes.filter(({ pid, name }) =>
      typeof of === "string" ? name.startsWith(of) : of.includes(pid),
    );
    return sumTicks(watched) * TICK_MS;
  };
  const before = await read();
  return async () => (await read()) - before;
};
