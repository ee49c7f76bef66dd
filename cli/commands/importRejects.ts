import { once } from "node:events";
import { constants, open, stat } from "node:fs/promises";
import type { WriteStream } from "node:fs";
import { finished } from "node:stream/promises";
import type { Rejection } from "../../modules/history/importLine.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { printable } from "../output/printable.ts";
import { unwritableFileError } from "../output/writeNewFile.ts";

const SHOWN = 20;
const REASON_SHOWN = 500;

type Rejects = {
  readonly add: (rejection: Rejection) => Promise<void>;
  /** Resolves once all rejections are written. */
  readonly end: () => Promise<void>;
};

const isSameFile = async (path: string, other: string): Promise<boolean> => {
  const [file, otherFile] = await Promise.all(
    [path, other].map((each) => stat(each).catch(() => null)),
  );
  return file?.isFile() === true && file.dev === otherFile?.dev && file.ino === otherFile.ino;
};

/** Opens a file for what was rejected. It holds customers' data, so only its owner may read it. */
const openFile = async (path: string, inputs: readonly string[]): Promise<WriteStream> => {
  for (const input of inputs) {
    if (await isSameFile(path, input)) {
      throw new CommandError(
        EXIT.usage,
        `${path} is imported, and --rejects would overwrite it. Choose another file for --rejects.`,
      );
    }
  }
  try {
    const handle = await open(path, constants.O_WRONLY | constants.O_CREAT, 0o600);
    // An existing file keeps its mode when it is opened. A device, such as /dev/null, is for all users.
    if ((await handle.stat()).isFile()) {
      await handle.chmod(0o600);
      // Only now, because another user's file does not change its mode.
      await handle.truncate();
    }
    return handle.createWriteStream();
  } catch (error) {
    throw unwritableFileError(path, EXIT.usage, error);
  }
};

type RejectsFile = {
  readonly write: (line: string) => Promise<void>;
  readonly end: () => Promise<void>;
};

/** @throws CommandError from each function if the file cannot be written, such as when the disk is full */
const openRejectsFile = async (path: string, inputs: readonly string[]): Promise<RejectsFile> => {
  const file = await openFile(path, inputs);
  let failure: Error | null = null;
  // A write fails after `write` has returned.
  file.on("error", (error) => {
    failure = error;
  });
  const requireWritten = async (written: Promise<unknown>): Promise<void> => {
    try {
      await written;
    } catch (error) {
      throw unwritableFileError(path, EXIT.failed, error);
    }
  };
  return {
    write: async (line) => {
      if (failure !== null) {
        throw unwritableFileError(path, EXIT.failed, failure);
      }
      if (!file.write(line)) {
        await requireWritten(once(file, "drain"));
      }
    },
    end: () => {
      file.end();
      return requireWritten(finished(file));
    },
  };
};

/**
 * Reports rejected lines: the first ones as messages, all of them in a file, if there is one. Each line of the file is a
 * JSON object; its `text` is the rejected line, to be mended and imported.
 * @param inputs the imported files, none of which is overwritten
 */
export const createRejects = async (
  io: Io,
  path: string | undefined,
  inputs: readonly string[],
  beforeMessage: () => void,
): Promise<Rejects> => {
  const file = path === undefined ? null : await openRejectsFile(path, inputs);
  let rejected = 0;
  return {
    add: async ({ line, outcome, reason }) => {
      rejected += 1;
      if (rejected <= SHOWN) {
        beforeMessage();
        say(
          io,
          `${printable(line.file, 200)}, line ${line.number}: ${outcome === "conflict" ? "conflict: " : ""}${printable(reason, REASON_SHOWN)}`,
        );
      } else if (rejected === SHOWN + 1) {
        beforeMessage();
        say(
          io,
          path === undefined
            ? "More lines are rejected. To see all of them, use --rejects FILE."
            : `More lines are rejected; see ${path}.`,
        );
      }
      const { file: name, number, text } = line;
      await file?.write(`${JSON.stringify({ file: name, line: number, outcome, reason, text })}\n`);
    },
    end: async () => {
      await file?.end();
    },
  };
};
