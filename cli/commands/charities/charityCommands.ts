import { basename } from "node:path";
import type { Command } from "commander";
import { z } from "zod";
import { findCharityRecord } from "../../../db/charities/charities.ts";
import { formatEin, parseEin } from "../../../domain/charities/charities.ts";
import { isTooShort, MINIMUM_SEARCH_LENGTH } from "../../../domain/charities/charitySearch.ts";
import { DomainError } from "../../../domain/errors.ts";
import { date } from "../../../domain/fields.ts";
import { importCharities } from "../../../services/charities/importCharities.ts";
import { searchCatalogue } from "../../../services/charities/searchCatalogue.ts";
import { parseLimit, parserOf } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { openTextFile } from "../../input/openTextFile.ts";
import { unreadableFile } from "../../input/unreadableFile.ts";
import { say } from "../../io.ts";
import { createProgressBar } from "../../output/createProgressBar.ts";
import { printJson, printRecord, printTable } from "../../output/print.ts";

const PAGE_SIZE = 20;
/** More bad lines than these are only counted: a wrong file must not fill the screen. */
const BAD_LINES_SHOWN = 20;

const parseExtractDate = parserOf(date(), "a date, such as 2026-04-13");

type ImportOptions = { readonly extracted?: string; readonly json?: true };

const importFile = async (
  { io, connections, clock }: Context,
  path: string,
  extracted: string | undefined,
) => {
  const db = await connections.database();
  const name = basename(path);
  const bar = createProgressBar(io);
  try {
    bar.update(null, `${name}: looking at the file`);
    const file = await openTextFile(path).catch((error: unknown) => {
      throw unreadableFile(path, error);
    });
    let bytesRead = 0;
    let bad = 0;
    const result = await importCharities(
      { db, clock },
      {
        sha256: await file.sha256(),
        extractedOn: extracted ?? file.modifiedAt.toISOString().slice(0, 10),
      },
      file.lines((bytes) => {
        bytesRead = bytes;
      }),
      {
        onBadLine: (line, reason) => {
          bad += 1;
          if (bad <= BAD_LINES_SHOWN) {
            bar.clear();
            say(io, `${name}:${line} ${reason}; it is left out`);
          }
        },
        onProgress: (lines) =>
          bar.update(bytesRead / file.sizeBytes, `${name}: ${lines.toLocaleString("en-US")} lines`),
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

const importFiles = async (
  context: Context,
  paths: readonly string[],
  { extracted, json }: ImportOptions,
): Promise<void> => {
  const results: Awaited<ReturnType<typeof importFile>>[] = [];
  for (const path of paths) {
    results.push(await importFile(context, path, extracted));
  }
  if (json) {
    printJson(
      context.io,
      results.map(({ doneBefore, ...counts }) => ({ ...counts, lines_done_before: doneBefore })),
    );
    return;
  }
  printTable(
    context.io,
    ["file", "added", "changed", "same", "older", "left out", "lines done before"],
    results.map(({ file, added, changed, same, older, bad, doneBefore }) => [
      file,
      added,
      changed,
      same,
      older,
      bad,
      doneBefore,
    ]),
  );
};

const search = async (
  { io, connections }: Context,
  name: string,
  { page, json }: { readonly page: number; readonly json?: true },
): Promise<void> => {
  if (isTooShort(name)) {
    throw new CommandError(
      EXIT.usage,
      `A search needs at least ${MINIMUM_SEARCH_LENGTH} letters or digits.`,
    );
  }
  const db = await connections.database();
  const { items, totalItems } = await searchCatalogue({ db }, name, { page, pageSize: PAGE_SIZE });
  if (json) {
    printJson(io, { total_items: totalItems, charities: items });
    return;
  }
  printTable(
    io,
    ["EIN", "name", "description", "website"],
    items.map((charity) => [
      charity.ein && formatEin(charity.ein),
      charity.name,
      charity.description,
      charity.website,
    ]),
  );
  const pages = Math.ceil(totalItems / PAGE_SIZE);
  say(io, `${totalItems.toLocaleString("en-US")} found; page ${page} of ${pages}.`);
};

const show = async (
  { io, connections }: Context,
  ein: string,
  { json }: { readonly json?: true },
): Promise<void> => {
  const charity = await findCharityRecord(await connections.database(), ein);
  if (!charity) {
    throw new CommandError(EXIT.notFound, `The catalogue has no EIN ${formatEin(ein)}.`);
  }
  if (json) {
    printJson(io, charity);
    return;
  }
  printRecord(io, {
    EIN: formatEin(charity.ein),
    name: charity.name,
    "sort name": charity.sortName,
    "known as": charity.knownAs,
    website: charity.website,
    city: charity.city,
    state: charity.state,
    "NTEE code": charity.ntee,
    "may be donated to": charity.eligible,
    "subsection of 501(c)": charity.subsection,
    "deductibility code": charity.deductibility,
    "in the extract of": charity.extractedOn,
  });
};

const parseEinArgument = parserOf(
  z.string().transform(parseEin).pipe(z.string()),
  "an EIN, such as 53-0196605",
);

export const addCharityCommands = (program: Command, context: Context): void => {
  const charity = program.command("charity").description("the built-in catalogue of charities");
  charity
    .command("import")
    .description(
      "load files of the IRS's Business Master File; the same file again changes nothing",
    )
    .argument("<file...>", "eo1.csv and the like, plain or gzip")
    .option(
      "--extracted <date>",
      "the day the files tell of; the file's own date when omitted",
      parseExtractDate,
    )
    .option("--json", "print JSON")
    .action((paths: string[], options: ImportOptions) => importFiles(context, paths, options));
  charity
    .command("search")
    .description("search the catalogue by name or EIN")
    .argument("<name>", "words of the name; typos are forgiven")
    .option("--page <number>", "which page", parseLimit, 1)
    .option("--json", "print JSON")
    .action((name: string, options: { readonly page: number; readonly json?: true }) =>
      search(context, name, options),
    );
  charity
    .command("show")
    .description("show all that the catalogue holds of an EIN")
    .argument("<ein>", "with or without the dash", parseEinArgument)
    .option("--json", "print JSON")
    .action((ein: string, options: { readonly json?: true }) => show(context, ein, options));
};
