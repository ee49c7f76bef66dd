import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { StartupError } from "../runtime/errors.rules.ts";

const POLL_MS = 100;

/** SQLite's error code for a lock that another connection holds. */
const SQLITE_BUSY = 5;
const sqliteError = z.object({ errcode: z.int().optional(), message: z.string() });

/** @returns the lock, or null if another process holds it */
const tryToLock = (folder: string): DatabaseSync | null => {
  let lock: DatabaseSync | undefined;
  try {
    lock = new DatabaseSync(join(folder, "lock"));
    lock.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    return lock;
  } catch (error) {
    lock?.close();
    const { errcode, message } = sqliteError.parse(error);
    if (errcode === SQLITE_BUSY) {
      return null;
    }
    throw new StartupError(
      `The data folder ${folder} cannot be used: ${message}. Change its owner or free space on its disk, or set DATA_DIR to another folder.`,
      { cause: error },
    );
  }
};

/**
 * Locks the folder for this process. It is a lock of the operating system (SQLite's exclusive lock on a file), so it is
 * released however the process ends.
 * @param waitMs how long to wait for a process that is stopping
 * @returns a function that releases the lock
 * @throws StartupError if another process holds the lock
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
          "Stop it first, or set DATA_DIR to another folder and use other ports.",
      );
    }
    if (!waiting) {
      onWait();
    }
    waiting = true;
    await sleep(POLL_MS);
  }
};
