import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { StartupError } from "../program/startupError.ts";

const POLL_MS = 100;

/** SQLite's own number for a lock that another connection holds. */
const SQLITE_BUSY = 5;
const sqliteFault = z.object({ errcode: z.int().optional(), message: z.string() });

/** @returns the lock, or null while another process has it */
const tryToLock = (folder: string): DatabaseSync | null => {
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(join(folder, "lock"));
    lock.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock?.close();
    const { errcode, message } = sqliteFault.parse(error);
    if (errcode === SQLITE_BUSY) {
      return null;
    }
    throw new StartupError(
      `The data folder ${folder} cannot be used: ${message}. Make it yours, or set DATA_DIR to another folder.`,
      { cause: error },
    );
  }
};

/**
 * Takes the folder for this process alone. The lock is the kernel's (SQLite's exclusive lock on a file in it), so it
 * ends with the process however that ends, and no id of a dead process can hold it.
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
    if (lock !== null) {
      return () => lock.close();
    }
    if (performance.now() > deadline) {
      throw new StartupError(
        `Another \`npm start\` uses the data folder ${folder}. ` +
          "Stop that one first, or set DATA_DIR to another folder (and other ports) for this one.",
      );
    }
    if (!waiting) {
      onWait();
    }
    waiting = true;
    await sleep(POLL_MS);
  }
};
