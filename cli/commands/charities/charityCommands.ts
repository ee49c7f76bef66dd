import type { Command } from "commander";
import { z } from "zod";
import { parseEin } from "../../../domain/charities/charities.ts";
import { date } from "../../../domain/fields.ts";
import { parseLimit, parserOf, parseSearchText } from "../../arguments.ts";
import type { CliContext } from "../../context.ts";
import { withAudit } from "../../operator.ts";
import type { ChangeOptions } from "../../operator.ts";
import type { JsonOption } from "../../output/print.ts";
import type { ImportOptions } from "./importCharityFiles.ts";
import { importCharityFiles } from "./importCharityFiles.ts";
import type { SearchOptions } from "./searchCharities.ts";
import { importLinks } from "./importLinks.ts";
import { searchCharities } from "./searchCharities.ts";
import { showCharity } from "./showCharity.ts";

const parseExtractDate = parserOf(date(), "a date, such as 2026-04-13");

const parseEinArgument = parserOf(
  z.string().transform(parseEin).pipe(z.string()),
  "an EIN, such as 53-0196605",
);

const LINKS_HELP = `
Each line is {"ein": "53-0196605", "website": "https://…", "icon_url": "https://…"}. An
absent URL leaves what is stored, and an empty one removes it.`;

export const addCharityCommands = (charity: Command, context: CliContext): void => {
  withAudit(
    charity
      .command("import")
      .description("Import files of the IRS's Business Master File")
      .argument("<file...>", "files such as eo1.csv, plain or gzipped")
      .option(
        "--extracted <date>",
        "date of the extract (default: the file's modification date)",
        parseExtractDate,
      ),
  ).action((paths: string[], options: ImportOptions) =>
    importCharityFiles(context, paths, options),
  );
  withAudit(
    charity
      .command("links")
      .description("Import websites and icons of charities")
      .argument("<file>", "file of JSON lines, plain or gzipped"),
  )
    .addHelpText("after", LINKS_HELP)
    .action((path: string, options: ChangeOptions) => importLinks(context, path, options));
  charity
    .command("search")
    .description("Search the catalogue by name or EIN")
    .argument("<name>", "words of the name, or an EIN; typos are tolerated", parseSearchText)
    .option("--page <n>", "page number", parseLimit, 1)
    .action((name: string, options: SearchOptions) => searchCharities(context, name, options));
  charity
    .command("show")
    .description("Show the catalogue's record of an EIN")
    .argument("<ein>", "EIN, with or without the dash", parseEinArgument)
    .action((ein: string, options: JsonOption) => showCharity(context, ein, options));
};
