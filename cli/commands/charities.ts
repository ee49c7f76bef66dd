import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { Command } from "@commander-js/extra-typings";
import type { OperatorContext } from "../../modules/accounts/context.ts";
import { findCharityRecord } from "../../modules/charities/catalogue.sql.ts";
import { formatEin, parseEin, presentCharity } from "../../modules/charities/charities.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { date } from "../../modules/records/fields.rules.ts";
import { importCharities, removeUnlisted } from "../../modules/charities/importCharities.ts";
import type { ImportedFile } from "../../modules/charities/importCharities.ts";
import { createCatalogue } from "../../modules/charities/createCatalogue.ts";
import { parseLimit, parseSearchText, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { openInput } from "../input/openInput.ts";
import { readTextLines } from "../input/readLines.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { createProgressLine } from "../output/createProgressLine.ts";
import { only, printDetails, printList, sayIfMore, snakeCased } from "../output/print.ts";

/** Further bad lines are only counted, so that a wrong file does not fill the screen. */
const BAD_LINES_SHOWN = 20;

/** Returns the date of an extract: the one that is given, or the file's modification date. */
const extractDateOf = async (path: string, given: string | undefined): Promise<string> => {
  if (given === undefined && path === "-") {
    throw new CommandError(EXIT.usage, "Standard input has no date: give --extracted.");
  }
  return given ?? (await stat(path)).mtime.toISOString().slice(0, 10);
};

/** Imports a file, and shows its progress and its bad lines. */
const importFile = async (
  { io }: CliContext,
  deps: OperatorContext,
  path: string,
  extracted: string | undefined,
) => {
  const file = basename(path);
  const progress = createProgressLine(io);
  const { bytes } = await openInput(path, io);
  let bad = 0;
  const input: ImportedFile = {
    name: file,
    lines: readTextLines(bytes),
    onBadLine: (line, problem) => {
      bad += 1;
      if (bad <= BAD_LINES_SHOWN) {
        progress.clear();
        say(io, `${file}:${line} skipped: ${problem}`);
      }
    },
    onProgress: (lines) => progress.update(`${file}: ${counted(lines, "line")}`),
  };
  try {
    const extractedOn = await extractDateOf(path, extracted);
    return { extractedOn, counts: { file, ...(await importCharities(deps, input, extractedOn)) } };
  } catch (error) {
    throw error instanceof DomainError
      ? new DomainError(error.code, `${file} cannot be imported: ${error.message}`, {
          cause: error,
        })
      : error;
  } finally {
    progress.clear();
  }
};

type ImportOptions = ChangeOptions & {
  readonly extracted?: string;
  readonly complete?: true;
};

const runImport = async (
  context: CliContext,
  paths: readonly string[],
  options: ImportOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const imported: Awaited<ReturnType<typeof importFile>>[] = [];
  try {
    for (const path of paths) {
      imported.push(await importFile(context, deps, path, options.extracted));
    }
  } finally {
    // If a later file fails, those before it are imported.
    if (imported.length > 0) {
      printList(
        context.io,
        imported.map(({ counts }) => counts),
      );
    }
  }
  if (imported.some(({ counts }) => counts.bad > 0)) {
    throw new CommandError(
      EXIT.failed,
      "Some lines were skipped. Correct them and import the file again.",
    );
  }
  const [earliest] = imported.map(({ extractedOn }) => extractedOn).toSorted();
  if (options.complete && earliest !== undefined) {
    const removed = await removeUnlisted(deps, earliest);
    say(
      context.io,
      `${counted(removed, "charity is", "charities are")} missing from the extract and no longer eligible for donations.`,
    );
  }
};

const parseExtractDate = parserOf(date(), "a date, such as 2026-04-13");

const addImportCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("import")
      .description("Import files of the IRS's Business Master File, plain or gzipped")
      .argument("<file...>", "files such as eo1.csv")
      .option(
        "--extracted <date>",
        "date of the extract (default: the file's modification date)",
        parseExtractDate,
      )
      .option(
        "--complete",
        "the files are a whole extract: charities that it lacks are no longer eligible",
      ),
  ).action((paths, options) => runImport(context, paths, options));
};

/** An operator may wait longer than a client. */
const SEARCH_TIMEOUT_MS = 60_000;

const search = async (
  { io, connections }: CliContext,
  name: string,
  limit: number,
): Promise<void> => {
  const db = await connections.database();
  const { items, totalItems } = await createCatalogue({ db, searches: db }).search(
    { name, ein: null, page: 1, pageSize: limit },
    AbortSignal.timeout(SEARCH_TIMEOUT_MS),
  );
  const charities = items.map((charity) => presentCharity(charity));
  printList(io, charities, only(charities, ["ein", "name", "description", "website"]));
  sayIfMore(io, totalItems, limit);
};

const showRecord = async ({ io, connections }: CliContext, ein: string): Promise<void> => {
  const found = await findCharityRecord(await connections.database(), ein);
  if (!found) {
    throw new CommandError(
      EXIT.notFound,
      `EIN ${formatEin(ein)} not found in the catalogue. See impact charity search.`,
    );
  }
  printDetails(io, snakeCased({ ...found, ein: formatEin(ein) }));
};

const addSearchCommand = (parent: Command, context: CliContext): void => {
  parent
    .command("search")
    .alias("show")
    .description("Search the catalogue by name, or show the record of an EIN")
    .argument("<name>", "words of the name, or an EIN; typos are tolerated", parseSearchText)
    .option("--limit <n>", "maximum rows", parseLimit, 20)
    .action((given, { limit }) => {
      const ein = parseEin(given);
      return ein === null ? search(context, given, limit) : showRecord(context, ein);
    });
};

export const addCharityCommands = (charity: Command, context: CliContext): void => {
  addImportCommand(charity, context);
  addSearchCommand(charity, context);
};
