import { readdir, readFile } from "node:fs/promises";

/** CPU time of this machine in clock ticks: busy with anything, busy with our processes, and in total. */
type Busy = { readonly all: number; readonly own: number; readonly total: number };

const readOrNull = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch(() => null);

const readProcess = async (
  pid: string,
): Promise<{ readonly pid: number; readonly parent: number; readonly ticks: number } | null> => {
  // The second field is the name in parentheses, which may contain spaces. Split after it, so index 0 is the third field.
  const fields = (await readOrNull(`/proc/${pid}/stat`))?.split(") ").at(-1)?.split(" ");
  if (!fields) {
    return null;
  }
  const [user, system, endedUser, endedSystem] = fields.slice(11, 15).map(Number);
  return {
    pid: Number(pid),
    parent: Number(fields[1]),
    ticks: (user ?? 0) + (system ?? 0) + (endedUser ?? 0) + (endedSystem ?? 0),
  };
};

/** Returns the ticks of this process and its descendants, including those that have ended. */
const readOwnTicks = async (): Promise<number> => {
  const names = (await readdir("/proc")).filter((name) => /^\d+$/u.test(name));
  const processes = (await Promise.all(names.map(readProcess))).filter((found) => found !== null);
  let ticks = 0;
  const waiting = new Set([process.pid]);
  for (const pid of waiting) {
    for (const each of processes) {
      if (each.pid === pid) {
        ticks += each.ticks;
      } else if (each.parent === pid) {
        waiting.add(each.pid);
      }
    }
  }
  return ticks;
};

const readBusy = async (): Promise<Busy | null> => {
  const line = (await readOrNull("/proc/stat"))?.split("\n")[0];
  if (line === undefined) {
    return null;
  }
  const ticks = line.trim().split(/\s+/u).slice(1, 9).map(Number);
  const total = ticks.reduce((sum, each) => sum + each, 0);
  const idle = (ticks[3] ?? 0) + (ticks[4] ?? 0);
  return { all: total - idle, total, own: await readOwnTicks() };
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
