import { readdir, readFile } from "node:fs/promises";

/** Time that the processors of this machine were busy, in clock ticks: all of it and our part. */
type Busy = { readonly all: number; readonly own: number; readonly total: number };

const readOrNull = (path: string): Promise<string | null> =>
  readFile(path, "utf8").catch(() => null);

const readProcess = async (
  pid: string,
): Promise<{ readonly pid: number; readonly parent: number; readonly ticks: number } | null> => {
  // The name, in parentheses, may hold blanks; numbers follow it. They count from the state, the third field.
  const fields = (await readOrNull(`/proc/${pid}/stat`))?.split(") ").at(-1)?.split(" ");
  if (!fields) {
    return null;
  }
  const [user, system, ofEndedUser, ofEndedSystem] = fields.slice(11, 15).map(Number);
  return {
    pid: Number(pid),
    parent: Number(fields[1]),
    ticks: (user ?? 0) + (system ?? 0) + (ofEndedUser ?? 0) + (ofEndedSystem ?? 0),
  };
};

/** The time of this process and of all that descend from it, those that have ended included. */
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
 * Starts to watch what else the machine does.
 * @returns a function that answers which share of the machine other programs have taken since then, 0 to 1; null on
 *   systems that do not tell
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
