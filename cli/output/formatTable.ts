import { createRequire } from "node:module";
import { styleText } from "node:util";
import type * as StringWidth from "string-width";
import { grouped } from "../../runtime/counted.rules.ts";
import type { Writable } from "node:stream";
import { escapeUnsafe } from "./printable.ts";

const require = createRequire(import.meta.url);

/** Returns how many columns of a terminal a text takes. Most are ASCII, and loading the library takes 20 ms of CPU. */
const widthOf = (text: string): number => {
  if (/^[ -~]*$/u.test(text)) {
    return text.length;
  }
  const { default: stringWidth }: typeof StringWidth = require("string-width");
  return stringWidth(text);
};

/** The value of a cell; null and undefined are shown as a dash. */
export type Cell = string | number | bigint | boolean | Date | null | undefined;

export const formatTime = (time: Date): string =>
  `${time.toISOString().slice(0, 19).replace("T", " ")}Z`;

const formatCell = (cell: Cell): string => {
  if (cell === null || cell === undefined || cell === "") {
    return "-";
  }
  if (cell instanceof Date) {
    return formatTime(cell);
  }
  if (typeof cell === "boolean") {
    return cell ? "yes" : "no";
  }
  return typeof cell === "string" ? escapeUnsafe(cell) : grouped(cell);
};

const isNumeric = (cell: Cell): boolean => typeof cell === "number" || typeof cell === "bigint";

const COLORS = new Map([
  ...["failed", "wrong", "refused", "too old", "unclear", "contradiction"].map(
    (word) => [word, "red"] as const,
  ),
  ...["late", "warning", "waiting", "difference", "credit owed", "in trouble"].map(
    (word) => [word, "yellow"] as const,
  ),
  ...["ok", "delivered"].map((word) => [word, "green"] as const),
]);

/** Colors a state on a terminal, unless NO_COLOR is set. Other texts are returned as they are. */
const colorState = (text: string, stream: Writable): string => {
  const color = COLORS.get(text);
  return color === undefined ? text : styleText(color, text, { stream });
};

/** Formats rows for a stream in aligned columns under their headings; columns of numbers are right-aligned. */
export const formatTable = (
  headings: readonly string[],
  rows: readonly (readonly Cell[])[],
  stream: Writable,
): string => {
  const right = headings.map(
    (_heading, column) => rows.length > 0 && rows.every((row) => isNumeric(row[column])),
  );
  const lines = [
    headings.map((heading) => heading.toUpperCase()),
    ...rows.map((row) => row.map(formatCell)),
  ];
  // Not by Math.max of all: so many arguments overflow the stack.
  const widths = headings.map((_heading, column) =>
    lines.reduce((width, line) => Math.max(width, widthOf(line[column] ?? "")), 0),
  );
  return lines
    .map((line) => {
      const cells = line.map((cell, column) => {
        const padding = " ".repeat((widths[column] ?? 0) - widthOf(cell));
        return right[column] ? padding + cell : colorState(cell, stream) + padding;
      });
      return `${cells.join("  ").trimEnd()}\n`;
    })
    .join("");
};

export const formatRecord = (fields: Readonly<Record<string, Cell>>, stream: Writable): string => {
  const names = Object.keys(fields);
  const width = Math.max(...names.map((name) => name.length));
  return names
    .map((name) => `${name.padEnd(width)}  ${colorState(formatCell(fields[name]), stream)}\n`)
    .join("");
};
