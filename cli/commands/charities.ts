import { stat } from "node:fs/promises";
import { basename } from "node:path";
import type { Command } from "commander";
import { z } from "zod";
import { findCharityRecord } from "../../modules/charities/charities.sql.ts";
import { formatEin, parseEin } from "../../modules/charities/charities.rules.ts";
import { counted, grouped } from "../../runtime/counted.rules.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { date } from "../../modules/records/fields.rules.ts";
import { importCharities } from "../../modules/charities/importCharities.ts";
import type { CharityImport } from "../../modules/charities/importCharities.ts";
import { importCharityLinks } from "../../modules/charities/importCharityLinks.ts";
import { searchCatalogue } from "../../modules/charities/searchCharities.ts";
import { parseLimit, parseSearchText, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { openInput, sha256Of } from "../input/openInput.ts";
import { readTextLines } from "../input/readLines.ts";
import { say } from "../io.ts";
import { openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { createProgressBar } from "../output/createProgressBar.ts";
import { printJson, printList, printRecord, printRows } from "../output/print.ts";
import type { Columns, JsonOption } from "../output/print.ts";

/** @throws CommandError if an import has skipped malformed lines */
const requireNoneSkipped = (lines: number): void => {
  if (lines > 0) {
    throw new CommandError(
      EXIT.failed,
      "Some lines were skipped. Correct them and import the file again.",
    );
  }
};

/** Further bad lines are only counted, so that a wrong file does not fill the screen. */
const BAD_LINES_SHOWN = 20;

type ImportOptions = ChangeOptions & {
  readonly extracted?: string;
};

const importFile = async (
  context: CliContext,
  path: string,
  { extracted, ...operator }: ImportOptions,
): Promise<CharityImport & { readonly file: string }> => {
  const { io } = context;
  const deps = await openChange(context, operator);
  const name = basename(path);
  const bar = createProgressBar(io);
  try {
    bar.update(null, `${name}: reading the file`);
    const input = await openInput(path, io);
    const { sizeBytes } = input;
    if (sizeBytes === null) {
      throw new CommandError(
        EXIT.usage,
        `${input.name} cannot be imported: pass a file, because it is read twice.`,
      );
    }
    const { mtime } = await stat(path);
    let bad = 0;
    const result = await importCharities(
      deps,
      {
        sha256: await sha256Of(path),
        extractedOn: extracted ?? mtime.toISOString().slice(0, 10),
      },
      readTextLines(input.bytes),
      {
        onBadLine: (line, problem) => {
          bad += 1;
          if (bad <= BAD_LINES_SHOWN) {
            bar.clear();
            say(io, `${name}:${line} skipped: ${problem}`);
          }
        },
        onProgress: (lines) =>
          bar.update(input.bytesRead() / sizeBytes, `${name}: ${counted(lines, "line")}`),
      },
    );
    return { file: name, ...result };
  } catch (error) {
    throw error instanceof DomainError
      ? new DomainError(error.code, `${name} cannot be imported: ${error.message}`, {
          cause: error,
        })
      : error;
  } finally {
    bar.clear();
  }
};

type FileImport = Awaited<ReturnType<typeof importFile>>;

const presentImport = ({ linesDoneBefore, ...counts }: FileImport) => ({
  ...counts,
  lines_done_before: linesDoneBefore,
});

const IMPORT_COLUMNS: Columns<FileImport> = {
  file: ({ file }) => file,
  added: ({ added }) => added,
  changed: ({ changed }) => changed,
  same: ({ same }) => same,
  older: ({ older }) => older,
  skipped: ({ bad }) => bad,
  "lines done before": ({ linesDoneBefore }) => linesDoneBefore,
};

const parseExtractDate = parserOf(date(), "a date, such as 2026-04-13");

const addImportCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("import")
      .description("Import files of the IRS's Business Master File")
      .argument("<file...>", "files such as eo1.csv, plain or gzipped")
      .option(
        "--extracted <date>",
        "date of the extract (default: the file's modification date)",
        parseExtractDate,
      ),
  ).action(async (paths: readonly string[], options: ImportOptions) => {
    const imports: FileImport[] = [];
    try {
      for (const path of paths) {
        imports.push(await importFile(context, path, options));
      }
    } finally {
      if (imports.length > 0) {
        printList({ io: context.io, json: options.json }, imports, presentImport, IMPORT_COLUMNS);
      }
    }
    requireNoneSkipped(imports.reduce((sum, { bad }) => sum + bad, 0));
  });
};

const LINKS_HELP = `
Each line is {"ein": "53-0196605", "website": "https://…", "icon_url": "https://…"}. An
absent URL leaves what is stored, and an empty one removes it.`;

const addLinksCommand = (parent: Command, context: CliContext): void => {
  withAudit(
    parent
      .command("links")
      .description("Import websites and icons of charities")
      .argument("<file>", "file of JSON lines, plain or gzipped"),
  )
    .addHelpText("after", LINKS_HELP)
    .action(async (path: string, { json, ...operator }: ChangeOptions) => {
      const { io } = context;
      const deps = await openChange(context, operator);
      const { bytes } = await openInput(path, io);
      let shown = 0;
      const counts = await importCharityLinks(deps, readTextLines(bytes), (line, problem) => {
        shown += 1;
        if (shown <= BAD_LINES_SHOWN) {
          say(io, `Line ${line} skipped: ${problem}`);
        }
      });
      if (json) {
        printJson(io, counts);
      } else {
        say(
          io,
          `Updated ${counted(counts.updated, "charity", "charities")}; ${counts.unknown} not in the catalogue, ${counted(counts.bad, "malformed line")}.`,
        );
      }
      requireNoneSkipped(counts.bad);
    });
};

type SearchOptions = { readonly page: number; readonly json?: true };

const PAGE_SIZE = 20;

const addSearchCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("search")
    .description("Search the catalogue by name or EIN")
    .argument("<name>", "words of the name, or an EIN; typos are tolerated", parseSearchText)
    .option("--page <n>", "page number", parseLimit, 1)
    .action(async (name: string, { page, json }: SearchOptions) => {
      const db = await connections.database();
      const { items, totalItems } = await searchCatalogue({ db }, name, {
        page,
        pageSize: PAGE_SIZE,
      });
      const charities = items.map((charity) => ({
        nonprofit_id: charity.nonprofitId,
        name: charity.name,
        ein: charity.ein && formatEin(charity.ein),
        description: charity.description,
        website: charity.website,
        icon_url: charity.iconUrl,
      }));
      if (json) {
        printJson(io, { total_items: totalItems, charities });
        return;
      }
      const total = grouped(totalItems);
      if (charities.length === 0) {
        say(
          io,
          totalItems === 0
            ? "No charities found."
            : `No charities on page ${page}; ${total} found.`,
        );
        return;
      }
      printRows(io, charities, {
        EIN: (charity) => charity.ein,
        name: (charity) => charity.name,
        description: (charity) => charity.description,
        website: (charity) => charity.website,
      });
      say(io, `${total} found; page ${page} of ${Math.ceil(totalItems / PAGE_SIZE)}.`);
    });
};

const parseEinArgument = parserOf(
  z.string().transform(parseEin).pipe(z.string()),
  "an EIN, such as 53-0196605",
);

const addShowCommand = (parent: Command, { io, connections }: CliContext): void => {
  parent
    .command("show")
    .description("Show the catalogue's record of an EIN")
    .argument("<ein>", "EIN, with or without the dash", parseEinArgument)
    .action(async (ein: string, { json }: JsonOption) => {
      const charity = await findCharityRecord(await connections.database(), ein);
      if (!charity) {
        throw new CommandError(
          EXIT.notFound,
          `EIN ${formatEin(ein)} not found in the catalogue. See impact charity search.`,
        );
      }
      if (json) {
        printJson(io, {
          ein: formatEin(charity.ein),
          name: charity.name,
          sort_name: charity.sortName,
          known_as: charity.knownAs,
          website: charity.website,
          icon_url: charity.iconUrl,
          city: charity.city,
          state: charity.state,
          ntee: charity.ntee,
          affiliation: charity.affiliation,
          eligible: charity.eligible,
          subsection: charity.subsection,
          deductibility: charity.deductibility,
          extracted_on: charity.extractedOn,
        });
        return;
      }
      printRecord(io, {
        EIN: formatEin(charity.ein),
        name: charity.name,
        "sort name": charity.sortName,
        "known as": charity.knownAs,
        website: charity.website,
        "icon URL": charity.iconUrl,
        city: charity.city,
        state: charity.state,
        "NTEE code": charity.ntee,
        "eligible for donations": charity.eligible,
        "subsection of 501(c)": charity.subsection,
        "deductibility code": charity.deductibility,
        "extract date": charity.extractedOn,
      });
    });
};

export const addCharityCommands = (charity: Command, context: CliContext): void => {
  addImportCommand(charity, context);
  addLinksCommand(charity, context);
  addSearchCommand(charity, context);
  addShowCommand(charity, context);
};
