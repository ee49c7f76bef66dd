import type { Io } from "../io.ts";
import type { Cell } from "./formatTable.ts";
import { printJson, printRecord } from "./print.ts";

/** Prints a record as JSON, or with its names as labels and its objects as JSON. */
export const printDetails = (
  { io, json }: { readonly io: Io; readonly json: true | undefined },
  record: Readonly<Record<string, Cell | object>>,
): void => {
  if (json) {
    printJson(io, record);
    return;
  }
  printRecord(
    io,
    Object.fromEntries(
      Object.entries(record).map(([name, value]) => [
        name.replaceAll("_", " "),
        typeof value === "object" && value !== null && !(value instanceof Date)
          ? JSON.stringify(value)
          : value,
      ]),
    ),
  );
};
