import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { Command } from "@commander-js/extra-typings";
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

/** Opens a file for an import, and shows its progress and its bad lines. */
const withFile = async <Counts extends object>(
  { io }: CliContext,
  path: string,
  run: (file: ImportedFile) => Promise<Counts>,
): Promise<Counts & { readonly file: string }> => {
  const name = basename(path);
  const progress = createProgressLine(io);
  const { bytes } = await openInput(path, io);
  let bad = 0;
  try {
    const counts = await run({
      name,
      lines: readTextLines(bytes),
      onBadLine: (line, problem) => {
        bad += 1;
        if (bad <= BAD_LINES_SHOWN) {
          progress.clear();
          say(io, `${name}:${line} skipped: ${problem}`);
        }
      },
      onProgress: (lines) => progress.update(`${name}: ${counted(lines, "line")}`),
    });
    return { file: name, ...counts };
  } catch (error) {
    throw error instanceof DomainError
      ? new DomainError(error.code, `${name} cannot be imported: ${error.message}`, {
          cause: error,
        })
      : error;
  } finally {
    progress.clear();
  }
};

/** Returns the date of an extract: the one that is given, or the file's modification date. */
const extractDateOf = async (path: string, given: string | undefined): Promise<string> => {
  if (given === undefined && path === "-") {
    throw new CommandError(EXIT.usage, "Standard input has no date: give --extracted.");
  }
  return given ?? (await stat(path)).mtime.toISOString().slice(0, 10);
};

type ImportOptions = ChangeOptions & {
  readonly extracted?: string;
  readonly complete?: true;
};

type FileCounts = Readonly<Record<string, number | string>> & { readonly bad: number };

const runImport = async (
  context: CliContext,
  paths: readonly string[],
  options: ImportOptions,
): Promise<void> => {
  const deps = await openChange(context, options);
  const imports: FileCounts[] = [];
  const dates: string[] = [];
  const importOne = (path: string): Promise<FileCounts> =>
    withFile(context, path, async (file) => {
      const extractedOn = await extractDateOf(path, options.extracted);
      dates.push(extractedOn);
      return importCharities(deps, file, extractedOn);
    });
  try {
    for (const path of paths) {
      imports.push(await importOne(path));
    }
  } finally {
    // If a later file fails, those before it are imported.
    if (imports.length > 0) {
      printList(context.io, imports);
    }
  }
  if (imports.some(({ bad }) => bad > 0)) {
    throw new CommandError(
      EXIT.failed,
      "Some lines were skipped. Correct them and import the file again.",
    );
  }
  const [earliest] = dates.toSorted();
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
