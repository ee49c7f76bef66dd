import { once } from "node:events";
import { say } from "../io.ts";
import type { Io } from "../io.ts";
import { formatRecord, formatTable } from "./formatTable.ts";
import type { Cell } from "./formatTable.ts";
import { escapeUnsafeInLines } from "./printable.ts";

/** The option of commands that can print JSON. */
export type JsonOption = { readonly json?: true };

/** Writes to stdout, and waits if its reader is slower. */
export const writeOut = async ({ stdout }: Io, chunk: string | Buffer): Promise<void> => {
  if (!stdout.write(chunk)) {
    await once(stdout, "drain");
  }
};

/** Prints text, whose parts may come from other parties. */
export const printText = ({ stdout }: Io, text: string): void => {
  stdout.write(`${escapeUnsafeInLines(text)}\n`);
};

export const printJson = (io: Io, value: unknown): void => {
  printText(io, JSON.stringify(value, null, 2));
};

/** Where a command prints, and whether as JSON. */
export type Output = { readonly io: Io; readonly json: true | undefined };

/** Prints a value as JSON for `--json`. Without it, `print` prints for people, who may need no more than a sentence. */
export const printResult = (
  { io, json }: Output,
  value: unknown,
  print: () => void = () => undefined,
): void => {
  if (json) {
    printJson(io, value);
  } else {
    print();
  }
};

export const printTable = (
  { stdout }: Io,
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
): void => {
  stdout.write(formatTable(headings, rows, stdout));
};

/** A table's columns: what the cells under each heading show of a row. */
export type Columns<Row> = Readonly<Record<string, (row: Row) => Cell>>;

/** Prints rows as a table. */
export const printRows = <Row>(io: Io, rows: readonly Row[], columns: Columns<Row>): void => {
  const cells = Object.values(columns);
  printTable(
    io,
    Object.keys(columns),
    rows.map((row) => cells.map((cell) => cell(row))),
  );
};

/** Returns an object under the names that `--json` prints: `accountName` becomes `account_name`. */
export const snakeCased = (object: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(object).map(([name, value]) => [
      name.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );

export const isCell = (value: unknown): value is Cell =>
  value === null || typeof value !== "object" || value instanceof Date;

/** Prints the fields of an object that have a value and are no lists, one a line. */
export const printFields = (io: Io, object: Readonly<Record<string, unknown>>): void => {
  const fields = Object.entries(object).flatMap(([name, value]): [string, Cell][] =>
    isCell(value) && value !== null ? [[name.replaceAll("_", " "), value]] : [],
  );
  printRecord(io, Object.fromEntries(fields));
};

/** Prints objects as a table whose headings are the names of their fields. */
export const printObjects = (io: Io, objects: readonly Readonly<Record<string, Cell>>[]): void => {
  const names = Object.keys(objects[0] ?? {});
  printTable(
    io,
    names.map((name) => name.replaceAll("_", " ")),
    objects.map((object) => names.map((name) => object[name])),
  );
};

/** Prints rows as JSON for `--json`, otherwise as a table. */
export const printList = <Row>(
  output: Output,
  rows: readonly Row[],
  present: (row: Row) => unknown,
  columns: Columns<Row>,
): void => {
  printResult(
    output,
    rows.map((row) => present(row)),
    () => printRows(output.io, rows, columns),
  );
};

export const printRecord = ({ stdout }: Io, fields: Readonly<Record<string, Cell>>): void => {
  stdout.write(formatRecord(fields, stdout));
};

/** Says that a list was cut. Commands read one row more than they show, to know whether there are more. */
export const sayIfMore = (io: Io, found: number, limit: number): void => {
  if (found > limit) {
    say(io, `Showing the first ${limit}. To see more, raise --limit.`);
  }
};

/** Says how to list the entries that follow a list which was cut. Commands read one entry more than they show. */
export const sayIfOlder = (
  io: Io,
  found: readonly { readonly id: string | number }[],
  limit: number,
): void => {
  const last = found[limit - 1];
  if (last && found.length > limit) {
    say(io, `For older entries, use --before ${last.id}.`);
  }
};
