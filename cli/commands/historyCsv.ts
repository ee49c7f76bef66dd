import { CsvError, Parser } from "csv-parse";
import { counted } from "../../runtime/counted.rules.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { MAXIMUM_LINE_LENGTH, NOT_WELL_FORMED, decodeText } from "../input/readLines.ts";
import { printable } from "../output/printable.ts";
import { LINE_FIELDS } from "./historyRecords.ts";

/** A row of a CSV file as the object that a line of JSON would be, or why it is none. */
type CsvRow = { readonly number: number } & (
  | { readonly fields: Readonly<Record<string, unknown>> }
  | { readonly problem: string; readonly text: string }
);

/** How messages name the separators. */
const DELIMITERS = { ",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars" } as const;
type Delimiter = keyof typeof DELIMITERS;

/** Returns the delimiter that is most frequent in a header: no name of a column has one. */
const delimiterOf = (header: string): Delimiter => {
  const found = (["\t", ";", "|", ","] as const).map((delimiter) => ({
    delimiter,
    count: header.split(delimiter).length,
  }));
  return found.toSorted((left, right) => right.count - left.count)[0]?.delimiter ?? ",";
};

/** Matches a record whose cells have quotes only around them, with those within doubled. */
const wellQuoted = (delimiter: Delimiter): RegExp => {
  const cell = `(?:"[^"]*(?:""[^"]*)*"|[^"${delimiter}]*)`;
  return new RegExp(`^${cell}(?:[${delimiter}]${cell})*$`, "u");
};

type CsvRecord = {
  /** The line on which it starts. */
  readonly number: number;
  readonly text: string;
  readonly cells: readonly string[];
};

/** Returns whether it is a record with its text, which the types of the option `raw` do not say. */
const isParsed = (
  given: unknown,
): given is { readonly raw: string; readonly record: readonly string[] } =>
  typeof given === "object" && given !== null && "raw" in given && "record" in given;

const countLineBreaks = (text: string): number => text.match(/\r\n|\n|\r/gu)?.length ?? 0;

/** Resolves when a step of a stream is done. */
const settled = (act: (done: (error?: Error | null) => void) => void): Promise<void> =>
  new Promise((resolve, reject) => {
    act((error) => (error ? reject(error) : resolve()));
  });

/**
 * Yields the records of a CSV text. Misplaced quotes are taken as they are, so the next record starts on the next line.
 * @throws CommandError if a record has no end
 */
async function* parseRecords(
  name: string,
  pieces: AsyncIterable<string>,
  delimiter: Delimiter,
): AsyncGenerator<CsvRecord, void, void> {
  const parsed: CsvRecord[] = [];
  let line = 1;
  const parser = new Parser({
    delimiter,
    record_delimiter: ["\r\n", "\n", "\r"],
    relax_quotes: true,
    relax_column_count: true,
    skip_empty_lines: true,
    max_record_size: MAXIMUM_LINE_LENGTH,
    raw: true,
    // Collected here, because the stream would drop the records before an error.
    on_record: (given: unknown) => {
      if (!isParsed(given)) {
        return null;
      }
      const { raw, record } = given;
      // The text begins with the skipped lines before the record, and ends with the first character of its line break.
      const [skipped] = /^[\r\n]*/u.exec(raw) ?? [""];
      const text = raw.slice(skipped.length).replace(/[\r\n]$/u, "");
      line += countLineBreaks(skipped);
      parsed.push({ number: line, text, cells: record });
      line += countLineBreaks(text) + 1;
      return null;
    },
  });
  // Those who write get the same error.
  parser.on("error", () => undefined);
  try {
    for await (const piece of pieces) {
      await settled((done) => parser.write(piece, done));
      yield* parsed.splice(0);
    }
    await settled((done) => parser.end(done));
  } catch (error) {
    yield* parsed.splice(0);
    if (!(error instanceof CsvError)) {
      throw error;
    }
    const problem =
      error.code === "CSV_MAX_RECORD_SIZE"
        ? `the record is longer than ${MAXIMUM_LINE_LENGTH} characters, perhaps because a quote is not closed`
        : "a quote is not closed";
    throw new CommandError(
      EXIT.failed,
      `${name}, line ${line}: ${problem}, so the end of the record is unknown. Earlier lines were processed. Correct the line and run the command again.`,
      { cause: error },
    );
  }
  yield* parsed;
}

const NUMBERS: ReadonlySet<string> = new Set([
  "count",
  "fractional_count",
  "refunded_count",
  "amount",
  "amount_cents",
  "unit_price_cents",
]);

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

const listColumns = (names: readonly string[]): string =>
  names
    .slice(0, 10)
    .map((column) => printable(column, 40) || "(empty)")
    .join(", ");

const columnsOf = (
  name: string,
  header: readonly string[],
  delimiter: Delimiter,
): readonly string[] => {
  const columns = header.map((column) => column.trim());
  const wrong = columns.filter(
    (column, index) => !LINE_FIELDS.has(column) || columns.indexOf(column) !== index,
  );
  if (wrong.length > 0) {
    throw new CommandError(
      EXIT.usage,
      `${name} is neither JSON lines nor CSV with known columns. Its first line, split at ${DELIMITERS[delimiter]}, has ${counted(columns.length, "column")}: ${listColumns(columns)}. ${listColumns(wrong)} ${wrong.length === 1 ? "is" : "are"} unknown or repeated. Known columns: ${[...LINE_FIELDS].join(", ")}.`,
    );
  }
  return columns;
};

/** Returns what is wrong with a record, or null. */
const findProblem = (
  { text, cells }: CsvRecord,
  columns: readonly string[],
  isWellQuoted: RegExp,
): string | null => {
  if (text.includes('"') && !isWellQuoted.test(text)) {
    return "a cell with quotes must be in quotes, with its own quotes doubled";
  }
  if (cells.length !== columns.length) {
    return `has ${counted(cells.length, "column")} instead of ${columns.length}`;
  }
  return text.includes("\uFFFD") ? NOT_WELL_FORMED : null;
};

/** Reads chunks until they have the first line that is not blank. */
const readHeader = async (pieces: AsyncGenerator<string, void, void>): Promise<string> => {
  let start = "";
  while (!/\S.*[\r\n]/u.test(start) && start.length < MAXIMUM_LINE_LENGTH) {
    const { value } = await pieces.next();
    if (value === undefined) {
      break;
    }
    start += value;
  }
  return start;
};

/**
 * Reads the rows of a CSV file with a header, numbered by the line on which they start. Commas, semicolons, tabs or bars
 * separate the cells. A malformed row is reported, and the rest is read.
 * @throws CommandError for a column that is unknown, and for a quote that stays open
 */
export async function* readCsv(
  name: string,
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<CsvRow, void, void> {
  const pieces = decodeText(bytes);
  const start = await readHeader(pieces);
  const delimiter = delimiterOf(start.trimStart().split(/[\r\n]/u)[0] ?? "");
  const isWellQuoted = wellQuoted(delimiter);
  const all = async function* all(): AsyncGenerator<string, void, void> {
    yield start;
    yield* pieces;
  };
  let columns: readonly string[] | null = null;
  for await (const record of parseRecords(name, all(), delimiter)) {
    const { number, text, cells } = record;
    // Spreadsheets write rows of empty cells.
    if (cells.every((cell) => cell.trim() === "")) {
      continue;
    }
    if (columns === null) {
      columns = columnsOf(name, cells, delimiter);
      continue;
    }
    const problem = findProblem(record, columns, isWellQuoted);
    if (problem === null) {
      // An empty cell is a field that is not given.
      const given = columns.map((column, index) => [column, cells[index] ?? ""] as const);
      const fields = given
        .filter(([, cell]) => cell !== "")
        .map(([column, cell]) => [column, valueOf(column, cell)] as const);
      yield { number, fields: Object.fromEntries(fields) };
    } else {
      const last = number + countLineBreaks(text);
      const span = last === number ? "" : ` (with all lines to ${last}, by its quotes)`;
      yield { number, problem: `${problem}${span}`, text };
    }
  }
}
