import { once } from "node:events";
import type { Readable, Writable } from "node:stream";
import { formatCents } from "../../modules/records/money.rules.ts";
import { formatRecord, formatTable } from "./formatTable.ts";
import type { Cell } from "./formatTable.ts";
import { escapeUnsafeInLines } from "./printable.ts";

/** Data goes to stdout, messages go to stderr. */
export type Streams = {
  readonly stdin: Readable & { readonly isTTY?: boolean };
  readonly stdout: Writable & { readonly isTTY?: boolean };
  readonly stderr: Writable & { readonly isTTY?: boolean };
};

export type Io = Streams & { readonly json: boolean };

/** Returns an object under the names that `--json` prints: `accountName` becomes `account_name`. */
export const snakeCased = (object: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(object).map(([name, value]) => [
      name.replaceAll(/[A-Z]/gu, (letter) => `_${letter.toLowerCase()}`),
      value,
    ]),
  );

const isCell = (value: unknown): value is Cell =>
  value === null || typeof value !== "object" || value instanceof Date;

/** What `--json` prints. Text shows it with the names as labels. */
export type Fields = Readonly<Record<string, unknown>>;

const isFields = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof Date);

const labelOf = (name: string): string => name.replace(/_cents$/u, "").replaceAll("_", " ");

/** What text leaves out: the digest of a key, which is for another cell. */
const isShown = (name: string): boolean => name !== "sha256";

/** Returns a value as text shows it: cents as dollars, an id without separators of thousands, paragraphs on one line. */
const cellOf = (name: string, value: unknown): Cell => {
  if (typeof value === "string") {
    return value.replaceAll(/\s*\n\s*/gu, " ");
  }
  if (typeof value === "number") {
    return name.endsWith("_cents")
      ? formatCents(value)
      : /(?:^|_)(?:id|fact)$/u.test(name)
        ? String(value)
        : value;
  }
  if (Array.isArray(value)) {
    return value.every((each) => isCell(each)) ? value.join(", ") : JSON.stringify(value);
  }
  return isCell(value) ? value : JSON.stringify(value);
};

export const only = (rows: readonly Fields[], names: readonly string[]): readonly Fields[] =>
  rows.map((row) => Object.fromEntries(names.map((name) => [name, row[name]])));

/** Replaces objects by their fields. Metadata stay JSON. */
const flatten = (document: Fields, prefix = ""): readonly (readonly [string, unknown])[] =>
  Object.entries(document)
    .filter(([name]) => isShown(name))
    .flatMap(([name, value]) =>
      isFields(value) && !/metadata/u.test(name)
        ? flatten(value, `${prefix}${name}_`)
        : [[prefix + name, value] as const],
    );

export const createPrinter = (io: Io) => {
  const { stdout, stderr, json } = io;

  /** Writes a message to stderr. It may quote files, arguments and other systems, so what a terminal would obey is escaped. */
  const say = (sentence: string): void => {
    stderr.write(`${escapeUnsafeInLines(sentence)}\n`);
  };

  const printText = (text: string): void => {
    stdout.write(`${escapeUnsafeInLines(text)}\n`);
  };

  const printJson = (value: unknown): void => printText(JSON.stringify(value, null, 2));

  /** Prints a value as JSON for `--json`. Without it, `print` prints for people, who may need no more than a sentence. */
  const printResult = (value: unknown, print?: () => void): void =>
    json ? printJson(value) : print?.();

  /** Prints the fields of an object that have a value and are no lists, one a line. */
  const printFields = (object: Fields): void => {
    const fields = Object.entries(object).flatMap(([name, value]): [string, Cell][] =>
      isCell(value) && value !== null ? [[labelOf(name), cellOf(name, value)]] : [],
    );
    stdout.write(formatRecord(Object.fromEntries(fields), stdout));
  };

  const printObjects = (objects: readonly Fields[]): void => {
    const names = Object.keys(objects[0] ?? {}).filter(isShown);
    const rows = objects.map((object) => names.map((name) => cellOf(name, object[name])));
    stdout.write(formatTable(names.map(labelOf), rows, stdout));
  };

  /** Says that a list was cut. Commands read one row more than they show, to know whether there are more. */
  const sayIfMore = (found: number, limit: number): void => {
    if (found > limit) {
      say(`Showing the first ${limit}. To see more, raise --limit.`);
    }
  };

  /** Prints the first rows as JSON for `--json`, otherwise as a table of what people need of them. */
  const printList = (
    rows: readonly Fields[],
    shown: readonly Fields[] = rows,
    limit = Infinity,
  ): void => {
    printResult(rows.slice(0, limit), () =>
      rows.length === 0 ? say("None.") : printObjects(shown.slice(0, limit)),
    );
    sayIfMore(rows.length, limit);
  };

  /** Prints a record as JSON for `--json`, otherwise its fields, one a line, and a table of each of its lists of objects. */
  const printDetails = (document: Fields, shown = document): void =>
    printResult(document, () => {
      const lists: (readonly Fields[])[] = [];
      const fields = flatten(shown).flatMap(([name, value]): [string, Cell][] => {
        if (Array.isArray(value) && value.length > 0 && value.every((each) => isFields(each))) {
          lists.push(value);
          return [];
        }
        return [[labelOf(name), cellOf(name, value)]];
      });
      stdout.write(formatRecord(Object.fromEntries(fields), stdout));
      for (const list of lists) {
        stdout.write("\n");
        printObjects(list);
      }
    });

  return {
    say,
    printText,
    printJson,
    printResult,
    printFields,
    printObjects,
    printList,
    printDetails,
    sayIfMore,

    /** Writes the message of a failed command: as a sentence, or for `--json` as one line of JSON. */
    sayError: (message: string, exitCode: number): void =>
      say(json ? JSON.stringify({ error: message, exit_code: exitCode }) : `impact: ${message}`),
  };
};

/** Writes to stdout, and waits if its reader is slower. */
export const writeOut = async ({ stdout }: Io, chunk: string | Buffer): Promise<void> => {
  if (!stdout.write(chunk)) {
    await once(stdout, "drain");
  }
};
