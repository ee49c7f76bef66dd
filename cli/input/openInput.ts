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

/**
 * Reads chunks until one of them shows the format, or they end.
 * @param showsFormat gets each chunk, and how many bytes were read with it
 * @returns what was read, and all bytes from the start
 */
export const peek = async (
  chunks: AsyncIterable<Buffer>,
  showsFormat: (chunk: Buffer, bytesRead: number) => boolean,
): Promise<{ readonly start: Buffer; readonly bytes: AsyncGenerator<Buffer, void, void> }> => {
  const iterator = chunks[Symbol.asyncIterator]();
  const read: Buffer[] = [];
  let bytesRead = 0;
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    read.push(next.value);
    bytesRead += next.value.length;
    if (showsFormat(next.value, bytesRead)) {
      break;
    }
  }
  const start = Buffer.concat(read);
  const repeat = async function* repeat(): AsyncGenerator<Buffer, void, void> {
    yield start;
    yield* { [Symbol.asyncIterator]: () => iterator };
  };
  return { start, bytes: repeat() };
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

const isGzip = (start: Buffer): boolean => start[0] === 0x1f && start[1] === 0x8b;

async function* readBytes(
  name: string,
  open: () => AsyncIterable<Buffer>,
): AsyncGenerator<Buffer, void, void> {
  try {
    const { start, bytes } = await peek(open(), (_, bytesRead) => bytesRead >= 2);
    if (!isGzip(start)) {
      yield* bytes;
      return;
    }
    const gunzip = createGunzip({ chunkSize: CHUNK_BYTES });
    const feeding = pipeline(Readable.from(bytes, { objectMode: false }), gunzip);
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

/** Reads a whole text from a file, or from standard input for `-`. */
export const readText = async (io: Io, path: string): Promise<string> =>
  text((await openInput(path, io)).bytes);
