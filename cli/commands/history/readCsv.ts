import { Readable } from "node:stream";
import { CsvError, parse } from "csv-parse";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { printable } from "../../output/printable.ts";
import { LINE_FIELDS } from "./parseRecord.ts";

/** Metadata may take 16 KiB, several times that when escaped; no valid line is longer than this. */
const MAXIMUM_CHARACTERS = 256 * 1024;

const NUMBERS: ReadonlySet<string> = new Set([
  "count",
  "fractional_count",
  "refunded_count",
  "amount_cents",
  "unit_price_cents",
]);

/** A row of a CSV file as the object that a line of JSON would be, or why it is none. */
export type CsvRow = { readonly number: number } & (
  | { readonly fields: Readonly<Record<string, unknown>> }
  | { readonly problem: string }
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

const toRow = (number: number, columns: readonly string[], cells: readonly string[]): CsvRow => {
  if (cells.length !== columns.length) {
    return { number, problem: `has ${cells.length} columns instead of ${columns.length}` };
  }
  if (cells.some((cell) => cell.includes("\uFFFD"))) {
    return { number, problem: "not well-formed UTF-8" };
  }
  // An empty cell is a field that is not given.
  const given = columns.flatMap((column, index): [string, unknown][] => {
    const cell = cells[index] ?? "";
    return cell === "" ? [] : [[column, valueOf(column, cell)]];
  });
  return { number, fields: Object.fromEntries(given) };
};

/**
 * Reads the rows of a CSV file with a header (RFC 4180; a byte order mark is ignored), numbered by the line on which
 * they end.
 * @throws CommandError for a column that is unknown
 */
export async function* readCsv(
  name: string,
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<CsvRow, void, void> {
  let columns: readonly string[] | null = null;
  // csv-parse counts a line break of two characters twice if it is inside quotes.
  let countedTwice = 0;
  const records: AsyncIterable<{
    readonly record: readonly string[];
    readonly info: { readonly lines: number };
  }> = Readable.from(bytes).compose(
    parse({
      bom: true,
      info: true,
      relax_column_count: true,
      skip_empty_lines: true,
      max_record_size: MAXIMUM_CHARACTERS,
    }),
  );
  try {
    for await (const { record, info } of records) {
      if (columns === null) {
        columns = columnsOf(name, record);
      } else {
        countedTwice += record.reduce((sum, cell) => sum + cell.split("\r\n").length - 1, 0);
        yield toRow(info.lines - countedTwice, columns, record);
      }
    }
  } catch (error) {
    if (!(error instanceof CsvError)) {
      throw error;
    }
    throw new CommandError(
      EXIT.failed,
      `${name} is not valid CSV: ${printable(error.message, 300)}.`,
      { cause: error },
    );
  }
}
