import { counted } from "../../../domain/counted.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printable } from "../../output/printable.ts";
import { LINE_FIELDS } from "./parseRecord.ts";
import { OpenQuoteError, splitCells, splitCsv } from "./splitCsv.ts";

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
export type CsvRow = { readonly number: number } & (
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
