import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { OperatorContext } from "../../modules/accounts/context.ts";
import { findCharityRecord } from "../../modules/charities/catalogue.sql.ts";
import { formatEin, parseEin, presentCharity } from "../../modules/charities/charities.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest, requireFound } from "../../runtime/errors.rules.ts";
import { date } from "../../modules/records/fields.rules.ts";
import { importCharities, removeUnlisted } from "../../modules/charities/importCharities.ts";
import type { ImportedFile } from "../../modules/charities/importCharities.ts";
import { createCatalogue } from "../../modules/charities/createCatalogue.ts";
import { parseLimit, parseSearchText, parserOf } from "../arguments.ts";
import { addChange } from "../command.ts";
import type { Cli, Define } from "../command.ts";
import { only, snakeCased } from "../output/print.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { openInput } from "../input/openInput.ts";
import { readTextLines } from "../input/readLines.ts";
import { createProgressLine } from "../output/createProgressLine.ts";

/** Further bad lines are only counted, so that a wrong file does not fill the screen. */
const BAD_LINES_SHOWN = 20;

/** Returns the date of an extract: the one that is given, or the file's modification date. */
const extractDateOf = async (path: string, given: string | undefined): Promise<string> => {
  if (given === undefined && path === "-") {
    throw invalidRequest("Standard input has no date: give --extracted.");
  }
  return given ?? (await stat(path)).mtime.toISOString().slice(0, 10);
};

const importFile = async (
  { io, say }: Cli,
  deps: OperatorContext,
  path: string,
  extracted: string | undefined,
) => {
  const file = basename(path);
  const progress = createProgressLine(io);
  const { bytes } = await openInput(path, io);
  const extractedOn = await extractDateOf(path, extracted);
  let bad = 0;
  const input: ImportedFile = {
    name: file,
    lines: readTextLines(bytes),
    onBadLine: (line, problem) => {
      bad += 1;
      if (bad <= BAD_LINES_SHOWN) {
        progress.clear();
        say(`${file}:${line} skipped: ${problem}`);
      }
    },
    onProgress: (lines) => progress.update(`${file}: ${counted(lines, "line")}`),
  };
  const counts = await importCharities(deps, input, extractedOn).finally(progress.clear);
  return { extractedOn, counts: { file, ...counts } };
};

const parseExtractDate = parserOf(date(), "a date, such as 2026-04-13");

/** An operator may wait longer than a client. */
const SEARCH_TIMEOUT_MS = 60_000;

export const addCharityCommands: Define = (charity, cli) => {
  addChange(charity, "import", "Import files of the IRS's Business Master File, plain or gzipped")
    .argument("<file...>", "files such as eo1.csv")
    .option(
      "--extracted <date>",
      "date of the extract (default: the file's modification date)",
      parseExtractDate,
    )
    .option(
      "--complete",
      "the files are a whole extract: charities that it lacks are no longer eligible",
    )
    .action(async (paths, options) => {
      const deps = await cli.openChange(options);
      const imported: Awaited<ReturnType<typeof importFile>>[] = [];
      try {
        for (const path of paths) {
          imported.push(await importFile(cli, deps, path, options.extracted));
        }
      } finally {
        // If a later file fails, those before it are imported.
        if (imported.length > 0) {
          cli.printList(imported.map(({ counts }) => counts));
        }
      }
      if (imported.some(({ counts }) => counts.bad > 0)) {
        const message = "Some lines were skipped. Correct them and import the file again.";
        throw new CommandError(EXIT.failed, message);
      }
      const [earliest] = imported.map(({ extractedOn }) => extractedOn).toSorted();
      if (options.complete && earliest !== undefined) {
        const removed = await removeUnlisted(deps, earliest);
        cli.say(
          `${counted(removed, "charity is", "charities are")} missing from the extract and no longer eligible for donations.`,
        );
      }
    });

  charity
    .command("search")
    .alias("show")
    .description("Search the catalogue by name, or show the record of an EIN")
    .argument("<name>", "words of the name, or an EIN; typos are tolerated", parseSearchText)
    .option("--limit <n>", "maximum rows", parseLimit, 20)
    .action(async (given, { limit }) => {
      const db = await cli.connections.database();
      const ein = parseEin(given);
      if (ein !== null) {
        const shown = formatEin(ein);
        const found = requireFound(
          await findCharityRecord(db, ein),
          `EIN ${shown} not found in the catalogue. See impact charity search.`,
        );
        cli.printDetails(snakeCased({ ...found, ein: shown }));
        return;
      }
      const { items, totalItems } = await createCatalogue(db, db).search(
        { name: given, ein: null, page: 1, pageSize: limit },
        AbortSignal.timeout(SEARCH_TIMEOUT_MS),
      );
      const charities = items.map((each) => presentCharity(each));
      cli.printList(charities, only(charities, ["ein", "name", "description", "website"]));
      cli.sayIfMore(totalItems, limit);
    });
};
