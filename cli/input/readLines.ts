/** Decodes UTF-8. Invalid bytes become U+FFFD. A byte order mark is dropped. */
export async function* decodeText(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  for await (const chunk of bytes) {
    yield decoder.decode(chunk, { stream: true });
  }
  yield decoder.decode();
}

/** A longer line means that the file is not a text file of records. */
const MAXIMUM_LINE_LENGTH = 1024 * 1024;

/** Yields the lines of a text without line breaks, in constant memory. */
export async function* readTextLines(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<string, void, void> {
  let rest = "";
  for await (const piece of decodeText(bytes)) {
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

const LINE_FEED = 10;

/** Metadata may take 64 KiB, several times that when escaped; no valid line is longer than this. */
const MAXIMUM_BYTES = 1024 * 1024;

/** A line of a file, numbered from 1, or why it cannot be read. */
type Line = { readonly number: number } & (
  | { readonly text: string }
  | { readonly problem: string }
);

/** Creates a decoder each time, since one that failed keeps its state. */
const decode = (bytes: Uint8Array): string =>
  new TextDecoder("utf-8", { fatal: true }).decode(bytes);

const toLine = (number: number, pieces: readonly Buffer[], length: number): Line | null => {
  if (length > MAXIMUM_BYTES) {
    return { number, problem: `longer than ${MAXIMUM_BYTES} bytes` };
  }
  try {
    const text = decode(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces));
    return text.trim() === "" ? null : { number, text };
  } catch {
    return { number, problem: "not well-formed UTF-8" };
  }
};

/**
 * Yields the non-empty lines of a stream. A line that is too long is reported without being held in memory.
 */
export async function* readLines(input: AsyncIterable<Buffer>): AsyncGenerator<Line, void, void> {
  let number = 0;
  let pieces: Buffer[] = [];
  let length = 0;
  const endLine = (): Line | null => {
    number += 1;
    const line = toLine(number, pieces, length);
    pieces = [];
    length = 0;
    return line;
  };
  for await (const chunk of input) {
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      pieces.push(chunk.subarray(start, end));
      length += end - start;
      start = end + 1;
      const line = endLine();
      if (line) {
        yield line;
      }
    }
    length += chunk.length - start;
    pieces = length > MAXIMUM_BYTES ? [] : [...pieces, chunk.subarray(start)];
  }
  const last = endLine();
  if (last) {
    yield last;
  }
}
