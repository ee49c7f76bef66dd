import type { ImportLine } from "../../../services/registrations/importRegistrations.ts";

const LINE_FEED = 10;

/** A registration's metadata may take 16 KiB, several times that in escapes; nobody writes more than this. */
const MAXIMUM_BYTES = 256 * 1024;

/** Not one for all: a decoder that has failed once keeps its state. */
const decode = (bytes: Uint8Array): string =>
  new TextDecoder("utf-8", { fatal: true }).decode(bytes);

const toLine = (number: number, pieces: readonly Buffer[], length: number): ImportLine | null => {
  if (length > MAXIMUM_BYTES) {
    return { number, fault: `longer than ${MAXIMUM_BYTES} bytes` };
  }
  try {
    const text = decode(pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces));
    return text.trim() === "" ? null : { number, text };
  } catch {
    return { number, fault: "not well-formed UTF-8" };
  }
};

/**
 * The lines of a stream of bytes that are not empty. A line that is too long is told of without being kept.
 * @param onRead told how many bytes each chunk had
 */
export async function* readLines(
  input: AsyncIterable<Buffer>,
  onRead: (bytes: number) => void,
): AsyncGenerator<ImportLine, void, void> {
  let number = 0;
  let pieces: Buffer[] = [];
  let length = 0;
  const take = (): ImportLine | null => {
    number += 1;
    const line = toLine(number, pieces, length);
    pieces = [];
    length = 0;
    return line;
  };
  for await (const chunk of input) {
    onRead(chunk.length);
    let start = 0;
    for (let end = chunk.indexOf(LINE_FEED); end !== -1; end = chunk.indexOf(LINE_FEED, start)) {
      pieces.push(chunk.subarray(start, end));
      length += end - start;
      start = end + 1;
      const line = take();
      if (line) {
        yield line;
      }
    }
    length += chunk.length - start;
    pieces = length > MAXIMUM_BYTES ? [] : [...pieces, chunk.subarray(start)];
  }
  const last = take();
  if (last) {
    yield last;
  }
}
