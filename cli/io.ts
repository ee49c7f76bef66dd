import type { Readable, Writable } from "node:stream";

/** Where the program reads and writes: data on stdout, words for people on stderr. */
export type Io = {
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable & { readonly isTTY?: boolean };
};

/** Says something to the person, which no program is to read. */
export const say = ({ stderr }: Io, sentence: string): void => {
  stderr.write(`${sentence}\n`);
};
