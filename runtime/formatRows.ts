export type CsvValue = string | number | bigint | boolean | Date | null;

/**
 * Where a semicolon or a tab separates cells, as in many countries, these begin a cell also within a field with quotes: a
 * quote quotes only at the beginning of a cell. Such a cell may begin with spaces and quotes, which are removed.
 */
const FORMULA_WITHIN = /[;\t\r\n](?=[ "]*[=+\-@＝＋－＠])/gu;

/**
 * Spreadsheets run a text that starts like a formula, in some languages also with a full-width sign; an apostrophe makes it
 * a text again.
 */
const neutralize = (text: string): string => {
  // Few texts have one, and a search is faster than a replacement that finds nothing.
  const inner = text.search(FORMULA_WITHIN) === -1 ? text : text.replaceAll(FORMULA_WITHIN, "$&'");
  return /^[=+\-@＝＋－＠\t\r\n]/u.test(inner) ? `'${inner}` : inner;
};

const formatField = (value: CsvValue, escape: (text: string) => string): string => {
  if (value === null) {
    return "";
  }
  if (typeof value === "number" || typeof value === "bigint" || typeof value === "boolean") {
    return String(value);
  }
  const text = value instanceof Date ? value.toISOString() : escape(neutralize(value));
  return /[",\r\n]/u.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/**
 * Formats one line of CSV as RFC 4180 describes it.
 * @param escape applied to texts, for output that may go to a terminal
 */
export const formatCsvLine = (
  values: readonly CsvValue[],
  escape: (text: string) => string = (text) => text,
): string => `${values.map((value) => formatField(value, escape)).join(",")}\r\n`;

const CSV_TYPE = "text/csv; charset=utf-8; header=present";

/** The formats of lists besides JSON. Excel reads CSV as UTF-8 only if it begins with a byte order mark. */
export const EXPORT_FORMATS = {
  csv: { contentType: CSV_TYPE, mediaType: "text/csv", extension: "csv", mark: "" },
  excel: {
    contentType: CSV_TYPE,
    mediaType: "application/vnd.ms-excel",
    extension: "csv",
    mark: "\uFEFF",
  },
  ndjson: {
    contentType: "application/x-ndjson; charset=utf-8",
    mediaType: "application/x-ndjson",
    extension: "ndjson",
    mark: "",
  },
} as const;
export type ExportFormat = keyof typeof EXPORT_FORMATS;

/** Returns the value at a path such as `period.start`; objects become JSON. */
const csvValue = (row: object, column: string): CsvValue => {
  let value: unknown = row;
  for (const name of column.split(".")) {
    value = typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
  }
  if (value === undefined || value === null) {
    return null;
  }
  return typeof value === "string" || typeof value === "number" || typeof value === "boolean"
    ? value
    : JSON.stringify(value);
};

/**
 * Yields the pages of a list as the lines of a file.
 * @param columns the fields that CSV has, with a dot in the path of a field within a field; NDJSON has all
 */
export async function* formatPages(
  format: ExportFormat,
  columns: readonly string[],
  pages: AsyncIterable<Iterable<object>>,
): AsyncGenerator<Iterable<string>, void, void> {
  if (format !== "ndjson") {
    const head = formatCsvLine(columns.map((column) => column.replaceAll(".", "_")));
    yield [`${EXPORT_FORMATS[format].mark}${head}`];
  }
  for await (const page of pages) {
    yield Iterator.from(page).map((row) =>
      format === "ndjson"
        ? `${JSON.stringify(row)}\n`
        : formatCsvLine(columns.map((column) => csvValue(row, column))),
    );
  }
}
