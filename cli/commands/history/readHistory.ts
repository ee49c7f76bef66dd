import type { ImportLine } from "../../../services/history/importLine.ts";
import type { Input } from "../../input/openInput.ts";
import { peek } from "../../input/peek.ts";
import { readLines } from "../../input/readLines.ts";
import type { ParseOptions } from "./parseRecord.ts";
import { parseJsonLine, parseRecord } from "./parseRecord.ts";
import { readCsv } from "./readCsv.ts";

/** A byte order mark and white space, which may precede the first line. */
const SKIPPED: ReadonlySet<number> = new Set([0xef, 0xbb, 0xbf, 0x20, 0x09, 0x0a, 0x0d]);
const JSON_STARTS: ReadonlySet<number> = new Set(Buffer.from("{["));

const showsFormat = (byte: number): boolean => !SKIPPED.has(byte);

/** Reads the lines of a file, which holds JSON lines or CSV. */
export async function* readHistory(
  input: Input,
  options: ParseOptions,
): AsyncGenerator<ImportLine, void, void> {
  const { name } = input;
  const { start, bytes } = await peek(input.bytes, (chunk) => chunk.some(showsFormat));
  const first = start.find(showsFormat);
  if (first === undefined) {
    return;
  }
  if (JSON_STARTS.has(first)) {
    for await (const line of readLines(bytes)) {
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
  for await (const row of readCsv(name, bytes)) {
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
