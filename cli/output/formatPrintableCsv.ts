import { formatCsvLine } from "../../program/formatCsv.ts";
import type { CsvValue } from "../../program/formatCsv.ts";
import { escapeUnsafeInLines } from "./printable.ts";

/** Formats one line of CSV for output. Line feeds stay; what else a terminal would obey is escaped. */
export const formatPrintableCsvLine = (values: readonly CsvValue[]): string =>
  formatCsvLine(values, escapeUnsafeInLines);
