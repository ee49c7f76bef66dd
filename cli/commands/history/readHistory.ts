import type { ImportLine } from "../../../services/history/importLine.ts";
import type { Input } from "../../input/openInput.ts";
import { readLines } from "../../input/readLines.ts";
import type { ParseOptions } from "./parseRecord.ts";
import { parseJsonLine, parseRecord } from "./parseRecord.ts";
import { readCsv } from "./readCsv.ts";

/** A byte order mark and white space, which may precede the first line. */
const SKIPPED: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0x20, 0x09, 0x0a, 0x0d]);
const JSON_STARTS: ReadonlySet<number> = new Set(Buffer.from('{["'));

async function* prepend(
  start: readonly Buffer[],
  rest: AsyncIterator<Buffer>,
): AsyncGenerator<Buffer, void, void> {
  yield* start;
  for (let next = await rest.next(); next.done !== true; next = await rest.next()) {
    yield next.value;
  }
}

/** Reads until the first byte that shows the format; null if there is none. */
const recognize = async (
  bytes: AsyncIterable<Buffer>,
): Promise<{ readonly isJson: boolean; readonly bytes: AsyncIterable<Buffer> } | null> => {
  const iterator = bytes[Symbol.asyncIterator]();
  const start: Buffer[] = [];
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    start.push(next.value);
    const first = next.value.find((byte) => !SKIPPED.has(byte));
    if (first !== undefined) {
      return { isJson: JSON_STARTS.has(first), bytes: prepend(start, iterator) };
    }
  }
  return null;
};

/** Reads the lines of a file, which holds JSON lines or CSV. */
export async function* readHistory(
  { name, bytes }: Input,
  options: ParseOptions,
): AsyncGenerator<ImportLine, void, void> {
  const recognized = await recognize(bytes);
  if (recognized === null) {
    return;
  }
  if (recognized.isJson) {
    for await (const line of readLines(recognized.bytes)) {
      yield "problem" in line
        ? { file: name, number: line.number, problem: line.problem, text: null }
        : {
            file: name,
            number: line.number,
            text: line.text,
            ...parseJsonLine(line.text, options),
          };
    }
    return;
  }
  for await (const row of readCsv(name, recognized.bytes)) {
    yield "problem" in row
      ? { file: name, ...row }
      : {
          file: name,
          number: row.number,
          text: JSON.stringify(row.fields),
          ...parseRecord(row.fields, options),
        };
  }
}
