import { decodeText } from "./decodeText.ts";

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
