import { escapeUnsafeInLines } from "./printable.ts";

/** The value of a CSV field. */
export type CsvValue = string | number | Date | null;

/** Spreadsheets run a text that starts like a formula; an apostrophe makes it a text again. */
const neutralize = (text: string): string => (/^[=+\-@\t\r]/u.test(text) ? `'${text}` : text);

const formatField = (value: CsvValue): string => {
  if (value === null) {
    return "";
  }
  if (typeof value === "number") {
    return String(value);
  }
  const text = value instanceof Date ? value.toISOString() : escapeUnsafeInLines(neutralize(value));
  return /[",\n]/u.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};

/** Formats one line of CSV as RFC 4180 describes it. Line feeds stay; what else a terminal would obey is escaped. */
export const formatCsvLine = (values: readonly CsvValue[]): string =>
  `${values.map(formatField).join(",")}\r\n`;
