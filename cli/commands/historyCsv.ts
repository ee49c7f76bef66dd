import { counted } from "../../runtime/counted.rules.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { decodeText } from "../input/readLines.ts";
import { printable } from "../output/printable.ts";
import { LINE_FIELDS } from "./historyRecords.ts";

/** A record of a CSV file as it is written, numbered by the line on which it starts, or why it cannot be read. */
type CsvRecord = { readonly number: number } & (
  | { readonly text: string }
  | { readonly problem: string }
);

/** Thrown if a quote stays open: then the start of the next record is unknown. */
class OpenQuoteError extends Error {
  override readonly name = "OpenQuoteError";
  /** The line on which the record starts. */
  readonly number: number;

  constructor(number: number) {
    super(`A quote is not closed in the record that starts on line ${number}.`);
    this.number = number;
  }
}

/** Metadata may take 64 KiB, several times that when escaped; no valid record is longer than this. */
const MAXIMUM_CHARACTERS = 1024 * 1024;

const hasOddQuotes = (text: string): boolean => {
  let isOdd = false;
  for (let at = text.indexOf('"'); at !== -1; at = text.indexOf('"', at + 1)) {
    isOdd = !isOdd;
  }
  return isOdd;
};

/**
 * Splits a CSV file into its non-empty records. A record ends with the first line after which its quotes are even in
 * number, so whatever else is wrong with it, the next one starts on the next line.
 * @throws OpenQuoteError if a quote is not closed within the longest record
 */
async function* splitCsv(bytes: AsyncIterable<Buffer>): AsyncGenerator<CsvRecord, void, void> {
  let [line, start] = [1, 1];
  let text = "";
  let [isQuoted, isTooLong] = [false, false];

  const add = (piece: string): void => {
    isQuoted = hasOddQuotes(piece) ? !isQuoted : isQuoted;
    text += piece;
    if (text.length > MAXIMUM_CHARACTERS) {
      if (isQuoted) {
        throw new OpenQuoteError(start);
      }
      isTooLong = true;
      text = "";
    }
  };

  /** Returns the record that ends here; null if it is empty. */
  const end = (): CsvRecord | null => {
    const written = text.endsWith("\r") ? text.slice(0, -1) : text;
    const record: CsvRecord = isTooLong
      ? { number: start, problem: `longer than ${MAXIMUM_CHARACTERS} characters` }
      : { number: start, text: written };
    const isEmpty = !isTooLong && written.trim() === "";
    [text, isTooLong] = ["", false];
    return isEmpty ? null : record;
  };

  for await (const chunk of decodeText(bytes)) {
    let from = 0;
    for (let feed = chunk.indexOf("\n"); feed !== -1; feed = chunk.indexOf("\n", from)) {
      add(chunk.slice(from, feed));
      from = feed + 1;
      line += 1;
      if (isQuoted) {
        text += "\n";
        continue;
      }
      const record = end();
      start = line;
      if (record) {
        yield record;
      }
    }
    add(chunk.slice(from));
  }
  if (isQuoted) {
    throw new OpenQuoteError(start);
  }
  const last = end();
  if (last) {
    yield last;
  }
}

/** Returns the end of a quoted cell that starts at a position: the position of its closing quote; -1 without one. */
const findClosingQuote = (text: string, start: number): number => {
  let at = text.indexOf('"', start + 1);
  while (at !== -1 && text[at + 1] === '"') {
    at = text.indexOf('"', at + 2);
  }
  return at;
};

/** Returns the cells of a record (RFC 4180), or null if its quotes are misplaced. */
const splitCells = (text: string): readonly string[] | null => {
  if (!text.includes('"')) {
    return text.split(",");
  }
  const cells: string[] = [];
  for (let at = 0; ; at += 1) {
    if (text[at] === '"') {
      const close = findClosingQuote(text, at);
      if (close === -1) {
        return null;
      }
      cells.push(text.slice(at + 1, close).replaceAll('""', '"'));
      at = close + 1;
    } else {
      const comma = text.indexOf(",", at);
      const cell = text.slice(at, comma === -1 ? text.length : comma);
      if (cell.includes('"')) {
        return null;
      }
      cells.push(cell);
      at += cell.length;
    }
    if (at >= text.length) {
      return cells;
    }
    if (text[at] !== ",") {
      return null;
    }
  }
};

const NUMBERS: ReadonlySet<string> = new Set([
  "count",
  "fractional_count",
  "refunded_count",
  "amount",
  "amount_cents",
  "unit_price_cents",
  "balance_cents",
  "quantity",
]);

/** A row of a CSV file as the object that a line of JSON would be, or why it is none. */
type CsvRow = { readonly number: number } & (
  | { readonly fields: Readonly<Record<string, unknown>> }
  | {
      readonly problem: string;
      /** The record as it is written; null if it is too long to be kept. */
      readonly text: string | null;
    }
);

const columnsOf = (name: string, header: readonly string[]): readonly string[] => {
  const columns = header.map((column) => column.trim());
  const wrong = columns.filter(
    (column, index) => !LINE_FIELDS.has(column) || columns.indexOf(column) !== index,
  );
  if (wrong.length > 0) {
    throw new CommandError(
      EXIT.usage,
      `${name} is neither JSON lines nor CSV with known columns: ${wrong
        .slice(0, 5)
        .map((column) => printable(column, 40) || "(empty)")
        .join(
          ", ",
        )} ${wrong.length === 1 ? "is" : "are"} unknown or repeated. Known columns: ${[...LINE_FIELDS].join(", ")}.`,
    );
  }
  return columns;
};

/** Returns the value of a cell. A cell that cannot be converted stays text, which the field then rejects. */
const valueOf = (column: string, cell: string): unknown => {
  if (NUMBERS.has(column) && /^-?\d+(?:\.\d+)?(?:e[+-]?\d+)?$/iu.test(cell)) {
    return Number(cell);
  }
  if (column === "refunded" && /^(?:true|false)$/iu.test(cell)) {
    return cell.toLowerCase() === "true";
  }
  if (column === "metadata") {
    try {
      return JSON.parse(cell);
    } catch {
      return cell;
    }
  }
  return cell;
};

/** Returns the object that the cells of a record make, or what is wrong with it. */
const toFields = (
  columns: readonly string[],
  text: string,
): Readonly<Record<string, unknown>> | string => {
  const cells = splitCells(text);
  if (cells === null) {
    return "a cell with quotes must be in quotes, with its own quotes doubled";
  }
  if (cells.length !== columns.length) {
    return `has ${counted(cells.length, "column")} instead of ${columns.length}`;
  }
  if (text.includes("\uFFFD")) {
    return "not well-formed UTF-8";
  }
  // An empty cell is a field that is not given.
  const given = columns.flatMap((column, index): [string, unknown][] => {
    const cell = cells[index] ?? "";
    return cell === "" ? [] : [[column, valueOf(column, cell)]];
  });
  return Object.fromEntries(given);
};

const toRow = (number: number, columns: readonly string[], text: string): CsvRow => {
  const fields = toFields(columns, text);
  if (typeof fields !== "string") {
    return { number, fields };
  }
  const lines = text.split("\n").length;
  const span = lines === 1 ? "" : ` (with all lines to ${number + lines - 1}, by its quotes)`;
  return { number, problem: `${fields}${span}`, text };
};

const headerOf = (name: string, text: string): readonly string[] => {
  const header = splitCells(text);
  if (header === null) {
    throw new CommandError(EXIT.usage, `The first line of ${name} has misplaced quotes.`);
  }
  return columnsOf(name, header);
};

/**
 * Reads the rows of a CSV file with a header (RFC 4180; a byte order mark is ignored), numbered by the line on which
 * they start. A malformed row is reported, and the rest is read.
 * @throws CommandError for a column that is unknown, and for a quote that stays open
 */
export async function* readCsv(
  name: string,
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<CsvRow, void, void> {
  let columns: readonly string[] | null = null;
  try {
    for await (const record of splitCsv(bytes)) {
      if ("problem" in record) {
        yield { ...record, text: null };
      } else if (columns === null) {
        columns = headerOf(name, record.text);
      } else {
        yield toRow(record.number, columns, record.text);
      }
    }
  } catch (error) {
    if (!(error instanceof OpenQuoteError)) {
      throw error;
    }
    throw new CommandError(
      EXIT.failed,
      `${name}, line ${error.number}: a quote is not closed, so the end of the line is unknown. Earlier lines were processed. Correct the line and run the command again.`,
      { cause: error },
    );
  }
}
