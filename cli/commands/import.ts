import type { Command } from "commander";
import { text } from "../../modules/records/fields.rules.ts";
import { importKey } from "../../modules/history/importKey.ts";
import { importSlug } from "../../modules/history/importSlug.ts";
import { openAccount, withAccount } from "../accountOptions.ts";
import type { AccountOptions } from "../accountOptions.ts";
import { keySettingsOf, withKeySettings } from "../apiKeys.ts";
import type { NewKeyOptions } from "../apiKeys.ts";
import { parseId, parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { readSecret } from "../input/readSecret.ts";
import { say } from "../io.ts";
import { actorOf, openChange, withAudit } from "../operator.ts";
import type { ChangeOptions } from "../operator.ts";
import { printRecord, printResult } from "../output/print.ts";
import { addImportHistoryCommand } from "./importHistory.ts";

type ImportKeyOptions = ChangeOptions &
  AccountOptions &
  NewKeyOptions & {
    readonly keyFile?: string;
  };

const KEY_HELP = `
Clients keep their keys after the cut-over. The key has 16 to 256 visible characters and
needs no prefix. It is never an argument, which other users of the machine could see, and
only its SHA-256 and its first four characters are stored.
  pass show old-server/live-key | impact import key --org ID --mode live`;

const addKeyCommand = (group: Command, context: CliContext): void => {
  const importingKey = group
    .command("key")
    .description("Import an API key of another system from standard input or a file");
  withAudit(
    withKeySettings(withAccount(importingKey), "imported").option(
      "--key-file <file>",
      "file with the key, readable by its owner only (chmod 600)",
    ),
  )
    .addHelpText("after", KEY_HELP)
    .action(async (options: ImportKeyOptions) => {
      const { io, clock } = context;
      const { mode } = options;
      const { db, account } = await openAccount(context, options);
      const key = await readSecret(io, options.keyFile);
      const { id, hint, isNew } = await importKey(
        { db, clock, actor: actorOf(options) },
        account,
        mode,
        key,
        keySettingsOf(options, clock.now()),
      );
      const result = { id, mode, key: `${hint}…` };
      printResult({ io, json: options.json }, { ...result, new: isNew }, () =>
        printRecord(io, result),
      );
      say(io, isNew ? "Imported. The key works now." : "The account has this key already.");
    });
};

/** One part of a path. */
const parseSlug = parserOf(
  text(200).regex(/^[^/?#\s]+$/u),
  "1 to 200 characters without slashes, question marks, number signs and spaces",
);

const addSlugCommand = (group: Command, context: CliContext): void => {
  withAudit(
    group
      .command("slug")
      .description("Redirect the slug of an old dashboard to the organization's dashboard")
      .argument("<slug>", "the last part of the old dashboard's path", parseSlug)
      .requiredOption("--org <id>", "id of the organization", parseId),
  ).action(async (slug: string, options: ChangeOptions & { readonly org: string }) => {
    const { io } = context;
    const deps = await openChange(context, options);
    const { dashboardSlug, isNew } = await importSlug(deps, options.org, slug);
    const { json } = options;
    printResult({ io, json }, { slug, dashboard_slug: dashboardSlug, new: isNew });
    say(
      io,
      slug === dashboardSlug
        ? `/dashboard/${slug} is the dashboard itself.`
        : `/dashboard/${slug} redirects to /dashboard/${dashboardSlug}${isNew ? "" : " already"}.`,
    );
  });
};

export const addImportCommands = (group: Command, context: CliContext): void => {
  addImportHistoryCommand(group, context);
  addKeyCommand(group, context);
  addSlugCommand(group, context);
};
