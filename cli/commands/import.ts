import { text } from "node:stream/consumers";
import type { Command } from "@commander-js/extra-typings";
import { z } from "zod";
import { isExpired, KEY_SCOPES, requireOwnPrefix } from "../../modules/accounts/apiKeys.rules.ts";
import { MODES } from "../../modules/records/owner.rules.ts";
import type { Mode } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { CommandError, EXIT } from "../exitCodes.ts";
import { text as textField } from "../../modules/records/fields.rules.ts";
import { digestImportableKey, importKey } from "../../modules/history/importKey.ts";
import { importSlug } from "../../modules/history/importSlug.ts";
import { getNamedAccount, openAccount, requiredAccount } from "../accountOptions.ts";
import { keySettingsOf, withKeySettings } from "../apiKeys.ts";
import { parserOf } from "../arguments.ts";
import type { CliContext } from "../context.ts";
import { readSecret } from "../input/readSecret.ts";
import { say } from "../io.ts";
import { actorOf, openChange, withAudit } from "../operator.ts";
import { printDetails, printList, printResult } from "../output/print.ts";
import { addImportHistoryCommand } from "./importHistory.ts";

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
    withKeySettings(importingKey.addOption(requiredAccount()), "imported").option(
      "--key-file <file>",
      "file with the key, readable by its owner only (chmod 600)",
    ),
  )
    .addHelpText("after", KEY_HELP)
    .action(async (options) => {
      const { io, clock } = context;
      const { mode } = options;
      const { db, account } = await openAccount(context, options);
      const key = await readSecret(io, options.keyFile);
      const { id, hint, isNew } = await importKey(
        { db, clock, actor: actorOf(options) },
        account,
        mode,
        digestImportableKey(key, account.type, mode),
        keySettingsOf(options, clock.now()),
      );
      printDetails(io, { id, mode, key: `${hint}…`, new: isNew });
      say(io, isNew ? "Imported. The key works now." : "The account has this key already.");
    });
};

const time = z.iso.datetime().transform((given) => new Date(given));

/** Of the output of `key list --json`, what an import needs. */
const listedKeys = z.array(
  z.object({
    name: z.string(),
    mode: z.enum(MODES),
    scope: z.enum(KEY_SCOPES),
    hint: z.string(),
    sha256: z.string().regex(/^[0-9a-f]{64}$/u),
    expires_at: time.nullable(),
    revoked_at: time.nullable(),
  }),
);

type ImportedRow = {
  readonly id: string;
  readonly mode: Mode;
  readonly key: string;
  readonly new: boolean;
};

const KEYS_HELP = `
Reads what \`impact key list --json\` printed in another cell, and imports the keys that are
valid there, with their names, scopes and expiries. Clients keep their keys.
  impact key list --org ID --json > keys.json
  impact import keys --org NEW_ID < keys.json`;

const readListedKeys = async ({ stdin }: CliContext["io"]) => {
  const given = await text(stdin);
  try {
    return listedKeys.parse(JSON.parse(given));
  } catch (cause) {
    throw new CommandError(
      EXIT.usage,
      "Standard input is not the output of `impact key list --json`.",
      { cause },
    );
  }
};

const addKeysCommand = (group: Command, context: CliContext): void => {
  withAudit(
    group
      .command("keys")
      .description("Import the API keys of an account in another cell")
      .addOption(requiredAccount()),
  )
    .addHelpText("after", KEYS_HELP)
    .action(async (options) => {
      const { io, clock } = context;
      const { db, account } = await openAccount(context, options);
      const now = clock.now();
      const valid = (await readListedKeys(io)).filter(
        ({ revoked_at: revokedAt, expires_at: expiresAt }) =>
          revokedAt === null && !isExpired(expiresAt, now),
      );
      for (const { hint, mode } of valid) {
        requireOwnPrefix(hint, account.type, mode);
      }
      const imported: ImportedRow[] = [];
      for (const { sha256: digest, hint, mode, expires_at: expiresAt, ...settings } of valid) {
        const change = { db, clock, actor: actorOf(options) };
        const key = { digest, hint };
        const { id, isNew } = await importKey(change, account, mode, key, {
          ...settings,
          expiresAt,
        });
        imported.push({ id, mode, key: `${hint}…`, new: isNew });
      }
      printList(io, imported);
      say(io, `The account has ${counted(imported.length, "key")} of the other cell.`);
    });
};

/** One part of a path. */
const parseSlug = parserOf(
  textField(200).regex(/^[^/?#\s]+$/u),
  "1 to 200 characters without slashes, question marks, number signs and spaces",
);

const addSlugCommand = (group: Command, context: CliContext): void => {
  withAudit(
    group
      .command("slug")
      .description("Redirect the slug of an old dashboard to the organization's dashboard")
      .argument("<slug>", "the last part of the old dashboard's path", parseSlug)
      .addOption(requiredAccount()),
  ).action(async (slug, options) => {
    const { io } = context;
    const deps = await openChange(context, options);
    const { id } = await getNamedAccount(deps.db, options.org);
    const { dashboardSlug, isNew } = await importSlug(deps, id, slug);
    printResult(io, { slug, dashboard_slug: dashboardSlug, new: isNew });
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
  addKeysCommand(group, context);
  addSlugCommand(group, context);
};
