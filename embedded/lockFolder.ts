import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { readFault } from "./readFault.ts";
import { StartupError } from "../program/startupError.ts";

const POLL_MS = 100;

/** @returns the lock, or null while another process has it */
const tryToLock = (folder: string): DatabaseSync | null => {
  const lock = new DatabaseSync(join(folder, "lock"));
  try {
    lock.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock.close();
    if (readFault(error).message.includes("locked")) return null;
    throw error;
  }
};

/**
 * Takes the folder for this process alone. The lock is the kernel's (SQLite's exclusive lock on a file in it),
 * so it ends with the process however that ends, and no id of a dead process can hold it.
 * @param waitMs how long one that is just stopping may take to let go
 * @returns what gives it back
 * @throws StartupError when another process keeps it
 */
export const lockFolder = async (
  folder: string,
  waitMs: number,
  onWait: () => void,
): Promise<() => void> => {
  const deadline = performance.now() + waitMs;
  let waiting = false;
  for (;;) {
    const lock = tryToLock(folder);
    if (lock !== null) return () => lock.close();
    if (performance.now() > deadline) {
      throw new StartupError(
        `Another \`npm start\` uses the data folder ${folder}. ` +
          "Stop that one first, or set DATA_DIR to another folder (and other ports) for this one.",
      );
    }
    if (!waiting) onWait();
    waiting = true;
    await sleep(POLL_MS);
  }
};
