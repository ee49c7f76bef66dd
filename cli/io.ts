import type { Readable, Writable } from "node:stream";
import { escapeUnsafeInLines } from "./output/printable.ts";

/** Data goes to stdout, messages go to stderr. */
export type Streams = {
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable & { readonly isTTY?: boolean };
};

export type Io = Streams & { readonly json: boolean };

/** Writes a message to stderr. It may quote files, arguments and other systems, so what a terminal would obey is escaped. */
export const say = ({ stderr }: Pick<Io, "stderr">, sentence: string): void => {
  stderr.write(`${escapeUnsafeInLines(sentence)}\n`);
};

/** Writes the message of a failed command: as a sentence, or for `--json` as one line of JSON. */
export const sayError = (
  io: Pick<Io, "stderr" | "json">,
  { message, exitCode }: { readonly message: string; readonly exitCode: number },
): void => {
  say(io, io.json ? JSON.stringify({ error: message, exit_code: exitCode }) : `impact: ${message}`);
};
