import type { Readable, Writable } from "node:stream";

/** Data goes to stdout, messages go to stderr. */
export type Io = {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable & { readonly isTTY?: boolean };
};

/** Writes a message to stderr. */
export const say = ({ stderr }: Io, sentence: string): void => {
  stderr.write(`${sentence}\n`);
};
