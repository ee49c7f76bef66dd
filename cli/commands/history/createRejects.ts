import { once } from "node:events";
import { createWriteStream } from "node:fs";
import type { Rejection } from "../../../services/history/importLine.ts";
import type { Io } from "../../io.ts";
import { say } from "../../io.ts";
import { CommandError, describeError, EXIT } from "../../exitCodes.ts";
import { printable } from "../../output/printable.ts";

const SHOWN = 20;
const REASON_SHOWN = 500;

export type Rejects = {
  readonly add: (rejection: Rejection) => Promise<void>;
  /** Resolves once all rejections are written. */
  readonly end: () => Promise<void>;
};

/** Opens a file for what was rejected. It holds customers' data, so only its owner may read it. */
const openFile = async (path: string) => {
  const file = createWriteStream(path, { mode: 0o600 });
  try {
    await once(file, "open");
  } catch (error) {
    throw new CommandError(EXIT.usage, `${path} cannot be written: ${describeError(error)}.`, {
      cause: error,
    });
  }
  return file;
};

/**
 * Reports rejected lines: the first ones as messages, all of them in a file, if there is one. Each line of the file is a
 * JSON object; its `text` is the rejected line, to be mended and imported.
 */
export const createRejects = async (
  io: Io,
  path: string | undefined,
  beforeMessage: () => void,
): Promise<Rejects> => {
  const file = path === undefined ? null : await openFile(path);
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
      if (
        file &&
        !file.write(`${JSON.stringify({ file: name, line: number, outcome, reason, text })}\n`)
      ) {
        await once(file, "drain");
      }
    },
    end: async () => {
      if (file) {
        file.end();
        await once(file, "close");
      }
    },
  };
};
