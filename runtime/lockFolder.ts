import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { z } from "zod";
import { StartupError } from "./errors.rules.ts";

/** SQLite's error code for a lock that another connection holds. */
const SQLITE_BUSY = 5;
const lockError = z.object({ errcode: z.int().optional(), message: z.string() });

/**
 * Creates a folder and locks it for this process. It is a lock of the operating system (SQLite's exclusive lock on a file),
 * so it is released however the process ends.
 * @param waitMs how long to wait for a process that is stopping; this process does nothing else meanwhile
 * @returns a function that releases the lock
 * @throws StartupError if another process holds the lock
 */
export const lockFolder = (folder: string, waitMs: number): (() => void) => {
  try {
    mkdirSync(folder, { recursive: true });
    const lock = new DatabaseSync(join(folder, "lock"), { timeout: waitMs });
    lock.exec("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE");
    return () => lock.close();
  } catch (error) {
    const { errcode, message } = lockError.parse(error);
    const problem =
      errcode === SQLITE_BUSY
        ? `Another \`npm start\` uses the data folder ${folder}. Stop it first, or set DATA_DIR to another folder and use other ports.`
        : `The data folder ${folder} cannot be used: ${message}. Change its owner or free space on its disk, or set DATA_DIR to another folder.`;
    throw new StartupError(problem, { cause: error });
  }
};
