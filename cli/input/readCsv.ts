import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { printable } from "../output/printable.ts";
import { MAXIMUM_LINE_LENGTH, NOT_WELL_FORMED, withoutReturn } from "./readLines.ts";
import type { Line } from "./readLines.ts";

/** A row of a CSV file, without its empty cells, or why it is none. */
type CsvRow = { readonly number: number } & (
  | { readonly cells: Readonly<Record<string, string>> }
  | { readonly problem: string; readonly text: string }
);

const DELIMITERS = { "\t": "tabs", ";": "semicolons", "|": "bars", ",": "commas" } as const;

/** Finds the delimiter that is most frequent in a header: no name of a column has one. */
const formatOf = (header: string) => {
  const delimiters = ["\t", ";", "|", ","] as const;
  const [delimiter = ","] = delimiters.toSorted(
    (left, right) => header.split(right).length - header.split(left).length,
  );
  const open = '"([^"]*(?:""[^"]*)*)';
  const end = `(?=[${delimiter}]|$)`;
  return {
    delimiter,
    cell: new RegExp(`[${delimiter}](?:${open}"|([^"${delimiter}]*))${end}`, "guy"),
    /** At the end of a line, a cell whose quote does not end. */
    openCell: new RegExp(`(?:^|[${delimiter}])${open}$`, "u"),
  };
};
type Format = ReturnType<typeof formatOf>;

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

/** @throws DomainError request_invalid if a column is unknown or repeated */
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
    throw invalidRequest(
      `${name} is neither JSON lines nor CSV with known columns. Its first line, split at ${DELIMITERS[delimiter]}, has ${counted(columns.length, "column")}: ${listColumns(columns)}. ${listColumns(wrong)} ${wrong.length === 1 ? "is" : "are"} unknown or repeated. Known columns: ${[...known].join(", ")}.`,
    );
  }
};

type CsvRecord = { readonly number: number; readonly text: string };

/**
 * Yields the records that are not blank, with the numbers of their first lines. A record goes on in the next line as long as
 * a cell in quotes is open. A quote inside another cell, such as that of inches, makes its row malformed and opens none.
 * @throws CommandError if a record has no end
 */
async function* readRecords(name: string, lines: AsyncIterable<Line>) {
  let format: Format | null = null;
  let open: CsvRecord | null = null;
  const fail = (number: number, problem: string): CommandError =>
    new CommandError(
      EXIT.failed,
      `${name}, line ${number}: ${problem}, so the end of the record is unknown. Earlier lines were processed. Correct the line and run the command again.`,
    );
  for await (const line of lines) {
    const number: number = open?.number ?? line.number;
    const all: string = open ? `${open.text}\n${line.text ?? ""}` : (line.text ?? "");
    if (line.text === null || all.length > MAXIMUM_LINE_LENGTH) {
      throw fail(
        number,
        `the record is longer than ${MAXIMUM_LINE_LENGTH} characters, perhaps because a quote is not closed`,
      );
    }
    if (open ? line.text.split('"').length % 2 === 1 : all.trim() === "") {
      open &&= { number, text: all };
      continue;
    }
    const text = withoutReturn(all);
    format ??= formatOf(text);
    const cells = cellsOf(text, format);
    open = !open && cells === null && format.openCell.test(text) ? { number, text: all } : null;
    if (!open) {
      yield { number, text, format, cells };
    }
  }
  if (open) {
    throw fail(open.number, "a quote is not closed");
  }
}

/** Returns why a record is no row, or null. */
const findProblem = (
  text: string,
  cells: readonly string[] | null,
  columns: readonly string[],
): string | null => {
  if (cells === null) {
    return "a cell with quotes must be in quotes, with its own quotes doubled";
  }
  if (cells.length !== columns.length) {
    return `has ${counted(cells.length, "column")} instead of ${columns.length}`;
  }
  return text.includes("\uFFFD") ? NOT_WELL_FORMED : null;
};

/**
 * Reads the rows of a CSV file with a header, numbered by the line on which they start. Commas, semicolons, tabs or bars
 * separate the cells. A malformed row is reported, and the rest is read.
 * @throws DomainError request_invalid for a column that is unknown, CommandError for a quote that stays open
 */
export async function* readCsv(
  name: string,
  lines: AsyncIterable<Line>,
  known: ReadonlySet<string>,
): AsyncGenerator<CsvRow, void, void> {
  let columns: readonly string[] | null = null;
  for await (const { number, text, format, cells } of readRecords(name, lines)) {
    // Spreadsheets write rows of empty cells.
    if (cells?.every((cell) => cell.trim() === "") === true) {
      continue;
    }
    if (columns === null) {
      columns = (cells ?? [text]).map((cell) => cell.trim());
      requireKnown(name, columns, known, format);
      continue;
    }
    const problem = findProblem(text, cells, columns);
    const given = columns.map((column, index) => [column, cells?.[index] ?? ""] as const);
    yield problem === null
      ? { number, cells: Object.fromEntries(given.filter(([, cell]) => cell !== "")) }
      : { number, text, problem };
  }
}
