import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";

const NAMES: Readonly<Record<string, RegExp>> = {
  API: /api\/main\.ts/u,
  worker: /worker\/main\.ts/u,
  PostgreSQL: /^\S*bin\/postgres\0-D/u,
  "Temporal server": /^\S*temporal\S*\0server/u,
};

/** Returns the ids of the programs that a supervisor of a folder has started, and that run, by their names. Linux only. */
export const listProcesses = async (folder: string): Promise<ReadonlyMap<string, number>> => {
  const pipe = join(folder, "running");
  const found = new Map<string, number>();
  for (const pid of (await readdir("/proc")).filter((name) => /^\d+$/u.test(name))) {
    const files = await readdir(`/proc/${pid}/fd`).catch(() => []);
    const open = await Promise.all(
      files.map((file) => readlink(`/proc/${pid}/fd/${file}`).catch(() => "")),
    );
    if (open.some((path) => path.replace(/ \(deleted\)$/u, "") === pipe)) {
      const command = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "");
      const [name] = Object.entries(NAMES).find(([, pattern]) => pattern.test(command)) ?? [];
      if (name !== undefined) {
        found.set(name, Number(pid));
      }
    }
  }
  return found;
};
