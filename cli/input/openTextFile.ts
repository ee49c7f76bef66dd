import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { open, stat } from "node:fs/promises";
import { createGunzip } from "node:zlib";

/** A longer line means that the file is not a text file of records. */
const MAXIMUM_LINE_LENGTH = 1024 * 1024;

export type TextFile = {
  readonly sizeBytes: number;
  readonly modifiedAt: Date;
  /** Hashes the whole file. */
  readonly sha256: () => Promise<string>;
  /**
   * Yields the lines without line breaks, in constant memory. Gzip is recognized by its first bytes.
   * @param onRead called with the number of bytes of the file read so far
   */
  readonly lines: (onRead: (bytes: number) => void) => AsyncIterable<string>;
};

const isGzip = async (path: string): Promise<boolean> => {
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0);
    return bytesRead === 2 && buffer[0] === 0x1f && buffer[1] === 0x8b;
  } finally {
    await file.close();
  }
};

async function* readText(
  path: string,
  compressed: boolean,
  onRead: (bytes: number) => void,
): AsyncGenerator<string> {
  const file = createReadStream(path, { highWaterMark: 256 * 1024 });
  const bytes: AsyncIterable<Buffer> = compressed ? file.compose(createGunzip()) : file;
  const decoder = new TextDecoder();
  for await (const chunk of bytes) {
    onRead(file.bytesRead);
    yield decoder.decode(chunk, { stream: true });
  }
  yield decoder.decode();
}

async function* splitLines(pieces: AsyncIterable<string>): AsyncGenerator<string> {
  let rest = "";
  for await (const piece of pieces) {
    const lines = (rest + piece).split("\n");
    rest = lines.pop() ?? "";
    if (rest.length > MAXIMUM_LINE_LENGTH) {
      throw new Error(`A line has more than ${MAXIMUM_LINE_LENGTH} characters.`);
    }
    for (const line of lines) {
      yield line.endsWith("\r") ? line.slice(0, -1) : line;
    }
  }
  if (rest !== "") {
    yield rest;
  }
}

/** @throws Error of the file system if the file cannot be read */
export const openTextFile = async (path: string): Promise<TextFile> => {
  const { size, mtime } = await stat(path);
  const compressed = await isGzip(path);
  return {
    sizeBytes: size,
    modifiedAt: mtime,
    sha256: async () => {
      const hash = createHash("sha256");
      for await (const chunk of createReadStream(path)) {
        hash.update(chunk);
      }
      return hash.digest("hex");
    },
    lines: (onRead) => splitLines(readText(path, compressed, onRead)),
  };
};
