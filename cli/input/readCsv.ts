import { counted } from "../../runtime/counted.rules.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { printable } from "../output/printable.ts";
import { MAXIMUM_LINE_LENGTH, NOT_WELL_FORMED, splitLines, withoutReturn } from "./readLines.ts";

/** A row of a CSV file, without its empty cells, or why it is none. */
type CsvRow = { readonly number: number } & (
  | { readonly cells: Readonly<Record<string, string>> }
  | { readonly problem: string; readonly text: string }
);

const DELIMITERS = { "\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas" } as const;

type Format = { readonly delimiter: keyof typeof DELIMITERS; readonly cell: RegExp };

/** Finds the delimiter that is most frequent in a header: no name of a column has one. */
const formatOf = (header: string): Format => {
  const delimiters = ["\t", ";", "|", ","] as const;
  const [delimiter = ","] = delimiters.toSorted(
    (left, right) => header.split(right).length - header.split(left).length,
  );
  const cell = `[${delimiter}](?:"([^"]*(?:""[^"]*)*)"|([^"${delimiter}]*))(?=[${delimiter}]|$)`;
  return { delimiter, cell: new RegExp(cell, "guy") };
};

/** Returns the cells of a record; null if a quote is elsewhere than around a cell, or not doubled within one. */
const cellsOf = (record: string, { delimiter, cell }: Format): readonly string[] | null => {
  const matches = [...`${delimiter}${record}`.matchAll(cell)];
  const length = matches.reduce((sum, [all]) => sum + all.length, -delimiter.length);
  return length === record.length
    ? matches.map(([, quoted, plain = ""]) => quoted?.replaceAll('""', '"') ?? plain)
    : null;
};

const listColumns = (names: readonly string[]): string =>
  names
    .slice(0, 10)
    .map((column) => printable(column, 40) || "(empty)")
    .join(", ");

/** @throws CommandError if a column is unknown or repeated */
const requireKnown = (
  name: string,
  columns: readonly string[],
  known: ReadonlySet<string>,
  { delimiter }: Format,
): void => {
  const wrong = columns.filter(
    (column, index) => !known.has(column) || columns.indexOf(column) !== index,
  );
  if (wrong.length > 0) {
    throw new CommandError(
      EXIT.usage,
      `${name} is neither JSON lines nor CSV with known columns. Its first line, split at ${DELIMITERS[delimiter]}, has ${counted(columns.length, "column")}: ${listColumns(columns)}. ${listColumns(wrong)} ${wrong.length === 1 ? "is" : "are"} unknown or repeated. Known columns: ${[...known].join(", ")}.`,
    );
  }
};

const CELL_IN_QUOTES = /(?:^|[,;\t|])"/u;

/** A record with the number of its first line. It goes on in the next line as long as its quotes are open. */
type CsvRecord = { readonly number: number; readonly text: string };

/** @throws CommandError if a record has no end */
async function* readRecords(
  name: string,
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<CsvRecord, void, void> {
  let open: CsvRecord | null = null;
  const fail = (number: number, problem: string): CommandError =>
    new CommandError(
      EXIT.failed,
      `${name}, line ${number}: ${problem}, so the end of the record is unknown. Earlier lines were processed. Correct the line and run the command again.`,
    );
  for await (const { number, text } of splitLines(bytes)) {
    const record: CsvRecord = {
      number: open?.number ?? number,
      text: open ? `${open.text}\n${text}` : (text ?? ""),
    };
    if (text === null || record.text.length > MAXIMUM_LINE_LENGTH) {
      throw fail(
        record.number,
        `the record is longer than ${MAXIMUM_LINE_LENGTH} characters, perhaps because a quote is not closed`,
      );
    }
    const hasOddQuotes = text.split('"').length % 2 === 0;
    // A quote inside a cell, such as that of inches, makes its row malformed and opens no other.
    const isOpened = hasOddQuotes && CELL_IN_QUOTES.test(text);
    open = (open === null ? isOpened : !hasOddQuotes) ? record : null;
    if (open === null) {
      yield { number: record.number, text: withoutReturn(record.text) };
    }
  }
  if (open) {
    throw fail(open.number, "a quote is not closed");
  }
}

/**
 * Reads the rows of a CSV file with a header, numbered by the line on which they start. Commas, semicolons, tabs or bars
 * separate the cells. A malformed row is reported, and the rest is read.
 * @throws CommandError for a column that is unknown, and for a quote that stays open
 */
export async function* readCsv(
  name: string,
  bytes: AsyncIterable<Buffer>,
  known: ReadonlySet<string>,
): AsyncGenerator<CsvRow, void, void> {
  let format: Format | null = null;
  let columns: readonly string[] | null = null;
  for await (const { number, text } of readRecords(name, bytes)) {
    if (format === null && text.trim() === "") {
      continue;
    }
    format ??= formatOf(text);
    const cells = cellsOf(text, format);
    // Spreadsheets write rows of empty cells.
    if (cells?.every((cell) => cell.trim() === "") === true) {
      continue;
    }
    if (columns === null) {
      columns = (cells ?? [text]).map((cell) => cell.trim());
      requireKnown(name, columns, known, format);
      continue;
    }
    if (cells === null) {
      yield {
        number,
        text,
        problem: "a cell with quotes must be in quotes, with its own quotes doubled",
      };
    } else if (cells.length !== columns.length) {
      yield {
        number,
        text,
        problem: `has ${counted(cells.length, "column")} instead of ${columns.length}`,
      };
    } else if (text.includes("\uFFFD")) {
      yield { number, text, problem: NOT_WELL_FORMED };
    } else {
      const given = columns.map((column, index) => [column, cells[index] ?? ""] as const);
      yield { number, cells: Object.fromEntries(given.filter(([, cell]) => cell !== "")) };
    }
  }
}
