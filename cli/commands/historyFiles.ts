import { resolve } from "node:path";
import { Option } from "@commander-js/extra-typings";
import type { Command, OptionValues } from "@commander-js/extra-typings";
import type { Account } from "../../modules/accounts/accounts.sql.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { text } from "../../modules/records/fields.rules.ts";
import { LINE_FIELDS, LINE_KINDS } from "../../modules/history/importedRecords.rules.ts";
import type { LineKind, ParseOptions } from "../../modules/history/importedRecords.rules.ts";
import type { ImportLine } from "../../modules/history/importLine.ts";
import { parseCells, parseJsonLine } from "../../modules/history/parseLine.ts";
import { requiredAccount } from "../accountOptions.ts";
import type { AccountOption } from "../accountOptions.ts";
import { parseMode, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { openInput, peek } from "../input/openInput.ts";
import type { Input } from "../input/openInput.ts";
import { readCsv } from "../input/readCsv.ts";
import { readLines } from "../input/readLines.ts";

export type HistoryOptions = AccountOption & {
  readonly mode: Mode;
  readonly kind?: LineKind;
  readonly source?: string;
};

/** The name of another system. It distinguishes its records from those of other systems, so it has no slash. */
const parseSource = parserOf(
  text(100).regex(/^[^/\s](?:[^/]*[^/\s])?$/u),
  "1 to 100 characters without slashes",
);

/** Adds the files of a history and the options that say whose records they hold. */
export const withHistory = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
) =>
  command
    .argument("<files...>", "paths of files, or - for standard input")
    .addOption(requiredAccount())
    .option("--mode <live|test>", "mode of the records", parseMode, "live")
    .addOption(new Option("--kind <kind>", "kind of the lines without a kind").choices(LINE_KINDS))
    .option("--source <name>", "system from which the evidence is imported", parseSource);

/** Byte order marks, the zero bytes of UTF-16 and white space, which may precede the first line. */
const SKIPPED: ReadonlySet<number> = new Set([...Buffer.from("\uFEFF \t\r\n\0"), 0xff, 0xfe]);
const JSON_STARTS: ReadonlySet<number> = new Set(Buffer.from("{["));
/** Of a ZIP archive, which a spreadsheet's own format is. */
const ZIP_START = "PK\x03\x04";

const showsFormat = (byte: number): boolean => !SKIPPED.has(byte);

/** Reads the lines of a file, which holds JSON lines or CSV. */
async function* readHistory(
  input: Input,
  options: ParseOptions,
): AsyncGenerator<ImportLine, void, void> {
  const { name: file } = input;
  const { start, bytes } = await peek(input.bytes, (chunk) => chunk.some(showsFormat));
  const first = start.find(showsFormat);
  if (first === undefined) {
    return;
  }
  if (start.toString("latin1").startsWith(ZIP_START)) {
    throw new CommandError(
      EXIT.usage,
      `${file} is a ZIP archive or a spreadsheet. Save the sheet as CSV, and import that file.`,
    );
  }
  if (JSON_STARTS.has(first)) {
    for await (const line of readLines(bytes)) {
      yield "problem" in line
        ? { file, text: null, ...line }
        : { file, ...line, ...parseJsonLine(line.text, options) };
    }
    return;
  }
  for await (const row of readCsv(file, bytes, LINE_FIELDS)) {
    yield "problem" in row
      ? { file, ...row }
      : { file, number: row.number, ...parseCells(row.cells, options) };
  }
}

/** Returns the lines of the files, which are read one after the other. */
type ReadLines = (account: Account, mode: Mode) => AsyncGenerator<ImportLine, void, void>;

/**
 * Finds all files before the first is read, so that a misspelt name changes nothing.
 * @throws CommandError also for a file that is given twice: its lines without id and key would be separate records
 */
export const openHistory = async (
  context: CliContext,
  paths: readonly string[],
  { kind, source }: Pick<HistoryOptions, "kind" | "source">,
): Promise<ReadLines> => {
  const inputs: Input[] = [];
  const repeated = paths.find(
    (path, index) => paths.findIndex((earlier) => resolve(earlier) === resolve(path)) < index,
  );
  if (repeated !== undefined) {
    throw new CommandError(EXIT.usage, `${repeated} is given twice. Give each file once.`);
  }
  for (const path of paths) {
    inputs.push(await openInput(path, context.io));
  }
  return async function* readAll({ fractionalCounting, type }, mode) {
    for (const input of inputs) {
      yield* readHistory(input, {
        now: context.clock.now(),
        fractionalCounting,
        storeMode: type === "store" ? mode : null,
        kind: kind ?? null,
        source: source ?? null,
      });
    }
  };
};
