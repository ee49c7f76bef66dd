import { randomBytes } from "node:crypto";
import { rmSync } from "node:fs";
import { open, readdir, rename, rm, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { pipeline } from "node:stream/promises";
import { withEndingSignals } from "../endingSignals.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";

/** Returns the error for a file that cannot be written. */
export const unwritableFileError = (path: string, exitCode: number, error: unknown): CommandError =>
  new CommandError(exitCode, `${path} cannot be written: ${describeError(error)}.`, {
    cause: error,
  });

/** The end of the name of an incomplete file. */
const PARTIAL = /^[0-9a-f]{8}\.part$/u;

/** @throws CommandError if the file exists */
const requireAbsent = async (path: string): Promise<void> => {
  if (await stat(path).catch(() => null)) {
    throw new CommandError(EXIT.failed, `${path} exists. Remove it, or choose another --output.`);
  }
};

/** Lists the incomplete files of exports to this path that were killed or are running. */
const listPartials = async (path: string): Promise<readonly string[]> => {
  const prefix = `${basename(path)}.`;
  const names = await readdir(dirname(path)).catch(() => []);
  return names
    .filter((name) => name.startsWith(prefix) && PARTIAL.test(name.slice(prefix.length)))
    .map((name) => join(dirname(path), name));
};

/**
 * Runs work on a file, and removes the file if the work fails or a signal ends the process. After SIGKILL it stays.
 */
const removeUnlessDone = (path: string, work: () => Promise<void>): Promise<void> =>
  withEndingSignals(
    () => rmSync(path, { force: true }),
    async () => {
      try {
        await work();
      } catch (error) {
        // The first error is the reason.
        await rm(path, { force: true }).catch(() => undefined);
        throw error;
      }
    },
  );

/**
 * Writes a file under another name first, so that an incomplete one is never taken for the export. That name is unique, so
 * what a killed export left does not stop the next one. It may hold customers' data, so only its owner may read it.
 */
export const writeNewFile = async (
  io: Io,
  path: string,
  chunks: AsyncIterable<string | Buffer>,
): Promise<void> => {
  await requireAbsent(path);
  for (const left of await listPartials(path)) {
    say(io, `Warning: ${left} is incomplete. Remove it if no other export is writing it.`);
  }
  const partial = `${path}.${randomBytes(4).toString("hex")}.part`;
  await removeUnlessDone(partial, async () => {
    const file = await open(partial, "wx", 0o600).catch((error: unknown) => {
      throw unwritableFileError(path, EXIT.usage, error);
    });
    await pipeline(chunks, file.createWriteStream());
    // Another export to this path may have ended meanwhile.
    await requireAbsent(path);
    await rename(partial, path);
  });
};
