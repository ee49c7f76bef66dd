import type { Cell } from "./formatTable.ts";
import { printRecord, printResult } from "./print.ts";
import type { Output } from "./print.ts";

/** Returns a value as the text shows it. An id has no separators of thousands. */
const textOf = (name: string, value: Cell | object): Cell => {
  if (typeof value === "object" && value !== null && !(value instanceof Date)) {
    return JSON.stringify(value);
  }
  return typeof value === "number" && /(?:^|_)id$/u.test(name) ? String(value) : value;
};

/** Prints a record as JSON, or with its names as labels and its objects as JSON. */
export const printDetails = (
  output: Output,
  record: Readonly<Record<string, Cell | object>>,
): void => {
  const shown = Object.entries(record).map(
    ([name, value]) => [name.replaceAll("_", " "), textOf(name, value)] as const,
  );
  printResult(output, record, () => printRecord(output.io, Object.fromEntries(shown)));
};
