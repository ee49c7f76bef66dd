import { constants, createReadStream } from "node:fs";
import { access, stat } from "node:fs/promises";
import { Readable } from "node:stream";
import { text } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";
import { DomainError, codeOf, invalidRequest } from "../../runtime/errors.rules.ts";
import { CommandError, EXIT, describeError } from "../exitCodes.ts";
import type { Io } from "../output/print.ts";

export const unreadableFileError = (path: string, cause: unknown): DomainError =>
  invalidRequest(`${path} cannot be read: ${describeError(cause)}.`, { cause });

/** Reads items until one shows the format, or they end. Returns these, and all items from the start. */
export const peek = async <Item>(
  items: AsyncIterable<Item>,
  showsFormat: (item: Item, read: readonly Item[]) => boolean,
): Promise<{ readonly start: readonly Item[]; readonly all: AsyncGenerator<Item, void, void> }> => {
  const iterator = items[Symbol.asyncIterator]();
  const start: Item[] = [];
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    start.push(next.value);
    if (showsFormat(next.value, start)) {
      break;
    }
  }
  const repeat = async function* repeat(): AsyncGenerator<Item, void, void> {
    try {
      yield* start;
      yield* { [Symbol.asyncIterator]: () => iterator };
    } finally {
      // Of a reader that stops within the start, too: an open pipe would keep the process alive.
      await iterator.return?.();
    }
  };
  return { start, all: repeat() };
};

export const peekBytes = async (chunks: AsyncIterable<Buffer>) => {
  const { start, all } = await peek(chunks, (_, read) => Buffer.concat(read).length >= 2);
  return { start: Buffer.concat(start).subarray(0, 2), all };
};

const CHUNK_BYTES = 256 * 1024;

export type Input = {
  readonly name: string;
  /** Decompressed, if the input is compressed. */
  readonly bytes: AsyncIterable<Buffer>;
};

/** Returns a function that opens it, so a file that is not read stays closed. */
const findSource = async (path: string, { stdin }: Io): Promise<() => AsyncIterable<Buffer>> => {
  if (path === "-") {
    return () => stdin;
  }
  try {
    // Not opened here: a writer of a named pipe would fail when it is closed.
    await access(path, constants.R_OK);
    if ((await stat(path)).isDirectory()) {
      throw invalidRequest(`${path} is a folder.`);
    }
    return () => createReadStream(path, { highWaterMark: CHUNK_BYTES });
  } catch (error) {
    throw error instanceof DomainError ? error : unreadableFileError(path, error);
  }
};

const GZIP_START = Buffer.from([0x1f, 0x8b]);

async function* readBytes(
  name: string,
  open: () => AsyncIterable<Buffer>,
): AsyncGenerator<Buffer, void, void> {
  try {
    const { start, all } = await peekBytes(open());
    if (!start.equals(GZIP_START)) {
      yield* all;
      return;
    }
    const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
    const feeding = pipeline(Readable.from(all, { objectMode: false }), gunzip);
    // The reader of the decompressed bytes receives the same error.
    feeding.catch(() => undefined);
    const decompressed: AsyncIterable<Buffer> = gunzip;
    yield* decompressed;
  } catch (error) {
    const code = codeOf(error);
    if (!code.startsWith("Z_")) {
      throw unreadableFileError(name, error);
    }
    throw new CommandError(
      EXIT.failed,
      code === "Z_BUF_ERROR"
        ? `${name} is incomplete: its gzip data ends too early. Get the whole file, and run the command again.`
        : `${name} is damaged: its gzip data cannot be decompressed.`,
      { cause: error },
    );
  }
}

/** Finds a file, or standard input for `-`. Gzip is recognized by its first bytes. */
export const openInput = async (path: string, io: Io): Promise<Input> => {
  const name = path === "-" ? "standard input" : path;
  return { name, bytes: readBytes(name, await findSource(path, io)) };
};

export const readText = async (io: Io, path: string): Promise<string> =>
  text((await openInput(path, io)).bytes);
