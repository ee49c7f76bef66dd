import { constants, open, stat } from "node:fs/promises";
import type { FileHandle } from "node:fs/promises";
import type { Rejection } from "../../modules/history/importLine.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { printable } from "../output/printable.ts";

const SHOWN = 20;
const REASON_SHOWN = 500;

const unwritableFileError = (path: string, exitCode: number, error: unknown): CommandError =>
  new CommandError(exitCode, `${path} cannot be written: ${describeError(error)}.`, {
    cause: error,
  });

type Rejects = {
  readonly add: (rejection: Rejection) => Promise<void>;
  readonly end: () => Promise<void>;
};

const isSameFile = async (path: string, other: string): Promise<boolean> => {
  const [file, otherFile] = await Promise.all(
    [path, other].map((each) => stat(each).catch(() => null)),
  );
  return file?.isFile() === true && file.dev === otherFile?.dev && file.ino === otherFile.ino;
};

/** Opens a file for what was rejected. It holds customers' data, so only its owner may read it. */
const openFile = async (path: string, inputs: readonly string[]): Promise<FileHandle> => {
  for (const input of inputs) {
    if (await isSameFile(path, input)) {
      throw new CommandError(
        EXIT.usage,
        `${path} is imported, and --rejects would overwrite it. Choose another file for --rejects.`,
      );
    }
  }
  try {
    const file = await open(path, constants.O_WRONLY | constants.O_CREAT, 0o600);
    // An existing file keeps its mode when it is opened. A device, such as /dev/null, is for all users.
    if ((await file.stat()).isFile()) {
      await file.chmod(0o600);
      // Only now, because another user's file does not change its mode.
      await file.truncate();
    }
    return file;
  } catch (error) {
    throw unwritableFileError(path, EXIT.usage, error);
  }
};

/**
 * Reports rejected lines: the first ones as messages, all of them in a file, if there is one. Each line of the file is a
 * JSON object; its `text` is the rejected line, to be corrected and imported.
 * @param inputs the imported files, none of which is overwritten
 */
export const createRejects = async (
  io: Io,
  path: string | undefined,
  inputs: readonly string[],
  beforeMessage: () => void,
): Promise<Rejects> => {
  const file = path === undefined ? null : await openFile(path, inputs);
  let rejected = 0;
  return {
    add: async ({ line: { file: name, number, text }, outcome, reason }) => {
      rejected += 1;
      if (rejected <= SHOWN + 1) {
        beforeMessage();
        const more =
          path === undefined ? ". To see all of them, use --rejects FILE." : `; see ${path}.`;
        const prefix = outcome === "bad" ? "" : `${outcome}: `;
        say(
          io,
          rejected <= SHOWN
            ? `${printable(name, 200)}, line ${number}: ${prefix}${printable(reason, REASON_SHOWN)}`
            : `More lines are rejected${more}`,
        );
      }
      const entry = { file: name, line: number, outcome, reason, text };
      try {
        await file?.write(`${JSON.stringify(entry)}\n`);
      } catch (error) {
        throw unwritableFileError(path ?? "", EXIT.failed, error);
      }
    },
    end: async () => {
      await file?.close();
    },
  };
};
