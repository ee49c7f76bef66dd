import type { Io } from "../io.ts";
import type { Cell } from "./formatTable.ts";
import { formatRecord, formatTable } from "./formatTable.ts";
import { escapeUnsafeInLines } from "./printable.ts";

export const printJson = ({ stdout }: Io, value: unknown): void => {
  stdout.write(`${escapeUnsafeInLines(JSON.stringify(value, null, 2))}\n`);
};

export const printTable = (
  { stdout }: Io,
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
): void => {
  stdout.write(formatTable(headings, rows));
};

export const printRecord = ({ stdout }: Io, fields: Readonly<Record<string, Cell>>): void => {
  stdout.write(formatRecord(fields));
};
