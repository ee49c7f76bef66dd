import { counted } from "../../runtime/counted.rules.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { printable } from "../output/printable.ts";
import { MAXIMUM_LINE_LENGTH, NOT_WELL_FORMED, splitLines, withoutReturn } from "./readLines.ts";

/** A row of a CSV file, without its empty cells, or why it is none. */
type CsvRow = { readonly number: number } & (
  | { readonly cells: Readonly<Record<string, string>> }
  | { readonly problem: string; readonly text: string }
);

/** How messages name the separators. */
const DELIMITERS = { "\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas" } as const;

/** How records are separated into cells. The patterns are for records after a delimiter. */
type Format = {
  readonly delimiter: keyof typeof DELIMITERS;
  readonly cell: RegExp;
  /** Matches a record whose cells have quotes only around them, with those within doubled. */
  readonly complete: RegExp;
  /** Matches a record that goes on in the next line: its last cell has no closing quote. */
  readonly open: RegExp;
};

/** Finds the delimiter that is most frequent in a header: no name of a column has one. */
const formatOf = (header: string): Format => {
  const delimiters = ["\t", ";", "|", ","] as const;
  const [delimiter = ","] = delimiters.toSorted(
    (left, right) => header.split(right).length - header.split(left).length,
  );
  const quoted = '"([^"]*(?:""[^"]*)*)';
  const cell = `[${delimiter}](?:${quoted}"|([^"${delimiter}]*))`;
  return {
    delimiter,
    cell: new RegExp(cell, "gu"),
    complete: new RegExp(`^(?:${cell})+$`, "u"),
    open: new RegExp(`^(?:${cell})*[${delimiter}]${quoted}$`, "u"),
  };
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

/** A record, over one line or more. */
type CsvRecord = {
  readonly number: number;
  readonly lines: readonly string[];
  readonly isWellQuoted: boolean;
  readonly cells: readonly string[];
};

/** A record whose last cell goes on in the next line. */
type OpenRecord = { readonly number: number; readonly lines: string[]; length: number };

/** @throws CommandError if a record has no end */
async function* readRecords(
  name: string,
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<CsvRecord & { readonly format: Format }, void, void> {
  let format: Format | null = null;
  let open: OpenRecord | null = null;
  const fail = (number: number, problem: string): CommandError =>
    new CommandError(
      EXIT.failed,
      `${name}, line ${number}: ${problem}, so the end of the record is unknown. Earlier lines were processed. Correct the line and run the command again.`,
    );
  for await (const { number, text } of splitLines(bytes)) {
    if (open === null && text?.trim() === "") {
      continue;
    }
    format ??= formatOf(text ?? "");
    const record: OpenRecord = open ?? { number, lines: [], length: 0 };
    record.length += text === null ? Infinity : text.length + 1;
    if (text === null || record.length > MAXIMUM_LINE_LENGTH) {
      throw fail(
        record.number,
        `the record is longer than ${MAXIMUM_LINE_LENGTH} characters, perhaps because a quote is not closed`,
      );
    }
    // A further line begins within a cell in quotes.
    const before = format.delimiter + (open ? '"' : "");
    const line = withoutReturn(text);
    const isWellQuoted = format.complete.test(before + line);
    if (!isWellQuoted && format.open.test(before + text)) {
      record.lines.push(text);
      open = record;
      continue;
    }
    open = null;
    const lines = [...record.lines, line];
    const cells = Array.from(
      (format.delimiter + lines.join("\n")).matchAll(format.cell),
      ([, quoted, plain = ""]) => quoted?.replaceAll('""', '"') ?? plain,
    );
    yield { number: record.number, lines, isWellQuoted, cells, format };
  }
  if (open) {
    throw fail(open.number, "a quote is not closed");
  }
}

/** Returns what is wrong with a record, or null. */
const findProblem = (
  { lines, isWellQuoted, cells }: CsvRecord,
  columns: readonly string[],
): string | null => {
  if (!isWellQuoted) {
    return "a cell with quotes must be in quotes, with its own quotes doubled";
  }
  if (cells.length !== columns.length) {
    return `has ${counted(cells.length, "column")} instead of ${columns.length}`;
  }
  return lines.some((line) => line.includes("\uFFFD")) ? NOT_WELL_FORMED : null;
};

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
  let columns: readonly string[] | null = null;
  for await (const record of readRecords(name, bytes)) {
    const { number, lines, cells, format } = record;
    // Spreadsheets write rows of empty cells.
    if (record.isWellQuoted && cells.every((cell) => cell.trim() === "")) {
      continue;
    }
    if (columns === null) {
      columns = cells.map((cell) => cell.trim());
      requireKnown(name, columns, known, format);
      continue;
    }
    const problem = findProblem(record, columns);
    if (problem === null) {
      const given = columns.map((column, index) => [column, cells[index] ?? ""] as const);
      yield { number, cells: Object.fromEntries(given.filter(([, cell]) => cell !== "")) };
    } else {
      const last = number + lines.length - 1;
      const span = last === number ? "" : ` (with all lines to ${last}, by its quotes)`;
      yield { number, problem: `${problem}${span}`, text: lines.join("\n") };
    }
  }
}
