import { mkdirSync } from "node:fs";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { z } from "zod";
import { StartupError, errorDetails } from "./errors.rules.ts";

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

const runFile = z.strictObject({
  databaseUrl: z.string(),
  databaseOwnerUrl: z.string(),
  temporalAddress: z.string(),
  temporalNamespace: z.string(),
  apiUrl: z.string(),
  storeUrl: z.string(),
});

/** How other programs reach a running `npm start`. The database URLs contain the passwords. */
export type RunFile = Readonly<z.output<typeof runFile>>;

const pathOf = (dataDir: string): string => join(dataDir, "run.json");

export const writeRunFile = async (dataDir: string, content: RunFile): Promise<void> => {
  const path = pathOf(dataDir);
  await writeFile(`${path}.new`, JSON.stringify(content, null, 2), { mode: 0o600 });
  await rename(`${path}.new`, path);
};

export const removeRunFile = (dataDir: string): Promise<void> =>
  rm(pathOf(dataDir), { force: true });

/** Another command may hold the lock for a moment, to find out the same. */
const LOCK_WAIT_MS = 200;

/** A running `npm start` has locked its folder. */
const isLocked = (dataDir: string): boolean => {
  try {
    lockFolder(dataDir, LOCK_WAIT_MS)();
    return false;
  } catch {
    return true;
  }
};

/**
 * Returns the run file of a running `npm start`, or null if there is none or it was left by a crash.
 * @throws StartupError if it cannot be read or is damaged
 */
export const readRunFile = async (dataDir: string): Promise<RunFile | null> => {
  const path = pathOf(dataDir);
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    const { code, message } = errorDetails(error);
    if (code === "ENOENT") {
      return null;
    }
    throw new StartupError(`${path} cannot be read: ${message}`, { cause: error });
  }
  try {
    const content = runFile.parse(JSON.parse(text));
    return isLocked(dataDir) ? content : null;
  } catch {
    throw new StartupError(`${path} is damaged. Restart \`npm start\`, which writes it again.`);
  }
};
