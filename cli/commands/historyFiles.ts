import { LINE_FIELDS } from "../../modules/history/importedRecords.rules.ts";
import type { ParseOptions } from "../../modules/history/importedRecords.rules.ts";
import type { ImportLine } from "../../modules/history/importLine.ts";
import { parseCells, parseJsonLine } from "../../modules/history/parseLine.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import type { Io } from "../io.ts";
import { openInput, peek } from "../input/openInput.ts";
import type { Input } from "../input/openInput.ts";
import { readCsv } from "../input/readCsv.ts";
import { readLines } from "../input/readLines.ts";

/** Byte order marks, the zero bytes of UTF-16 and white space, which may precede the first line. */
const SKIPPED: ReadonlySet<number> = new Set([...Buffer.from("\uFEFF \t\r\n\0"), 0xff, 0xfe]);
const JSON_STARTS: ReadonlySet<number> = new Set(Buffer.from("{["));
/** Of a ZIP archive, which a spreadsheet's own format is. */
const ZIP_START = "PK\x03\x04";

const showsFormat = (byte: number): boolean => !SKIPPED.has(byte);

/** Reads the lines of a file, which holds JSON lines or CSV. */
async function* readHistory(
  input: Input,
  options: ParseOptions,
): AsyncGenerator<ImportLine, void, void> {
  const { name: file } = input;
  const { start, bytes } = await peek(input.bytes, (chunk) => chunk.some(showsFormat));
  const first = start.find(showsFormat);
  if (first === undefined) {
    return;
  }
  if (start.toString("latin1").startsWith(ZIP_START)) {
    throw new CommandError(
      EXIT.usage,
      `${file} is a ZIP archive or a spreadsheet. Save the sheet as CSV, and import that file.`,
    );
  }
  if (JSON_STARTS.has(first)) {
    for await (const line of readLines(bytes)) {
      yield "problem" in line
        ? { file, text: null, ...line }
        : { file, ...line, ...parseJsonLine(line.text, options) };
    }
    return;
  }
  for await (const row of readCsv(file, bytes, LINE_FIELDS)) {
    yield "problem" in row
      ? { file, ...row }
      : { file, number: row.number, ...parseCells(row.cells, options) };
  }
}

/**
 * Finds all files before the first is read, so that a misspelt name changes nothing.
 * @returns a function that yields the lines of one file after the other
 */
export const openHistory = async (io: Io, paths: readonly string[]) => {
  const inputs: Input[] = [];
  for (const path of paths) {
    inputs.push(await openInput(path, io));
  }
  return async function* readAll(options: ParseOptions): AsyncGenerator<ImportLine, void, void> {
    for (const input of inputs) {
      yield* readHistory(input, options);
    }
  };
};
