/** The value of a CSV field. */
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
