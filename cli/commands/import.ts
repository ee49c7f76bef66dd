import { z } from "zod";
import { isExpired, KEY_SCOPES, requireOwnPrefix } from "../../modules/accounts/apiKeys.rules.ts";
import type { KeySettings } from "../../modules/accounts/apiKeys.rules.ts";
import { MODES } from "../../modules/records/owner.rules.ts";
import type { AccountType, Mode } from "../../modules/records/owner.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { text as textField } from "../../modules/records/fields.rules.ts";
import { digestImportableKey, importKey } from "../../modules/history/importKey.ts";
import { importSlug } from "../../modules/history/importSlug.ts";
import {
  getNamedAccount,
  requireOrganization,
  ACCOUNT_OPTION,
  ORGANIZATION_OPTION,
} from "../accountOptions.ts";
import { MODE, addKeySettings } from "../apiKeys.ts";
import { parsePath, parserOf } from "../arguments.ts";
import { addChange } from "../command.ts";
import type { Cli, Define } from "../command.ts";
import type { Fields } from "../output/print.ts";
import { readText } from "../input/openInput.ts";
import { readSecret } from "../input/readSecret.ts";
import { addImportHistoryCommand } from "./importHistory.ts";

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

/** Returns the keys that are valid in another cell. */
const readListedKeys = async ({ io, clock }: Cli, path: string, type: AccountType) => {
  const given = await readText(io, path);
  let listed: z.output<typeof listedKeys>;
  try {
    listed = listedKeys.parse(JSON.parse(given));
  } catch (cause) {
    throw invalidRequest(`${path} is not the output of \`impact key list --json\`.`, { cause });
  }
  const now = clock.now();
  return listed
    .filter((key) => key.revoked_at === null && !isExpired(key.expires_at, now))
    .map(({ sha256: digest, hint, mode, name, scope, expires_at: expiresAt }) => {
      requireOwnPrefix(hint, type, mode);
      return { mode, key: { digest, hint }, settings: { name, scope, expiresAt } };
    });
};

const KEY_HELP = `
Clients keep their keys after the cut-over. The key has 16 to 256 visible characters and
needs no prefix. It is never an argument, which other users of the machine could see, and
only its SHA-256 and its first four characters are stored.
  pass show old-server/live-key | impact import key --org ID --mode live
Keys of another cell have their names, scopes and expiries with them:
  impact key list --org ID --json > keys.json
  impact import key --org NEW_ID --listed keys.json`;

type KeyOptions = { readonly mode?: Mode; readonly keyFile?: string; readonly listed?: string };

const readKeys = async (
  cli: Cli,
  type: AccountType,
  { mode, keyFile, listed }: KeyOptions,
  settings: KeySettings,
) => {
  if (listed !== undefined) {
    return readListedKeys(cli, listed, type);
  }
  if (mode === undefined) {
    throw invalidRequest("Pass --mode, or --listed with the keys of another cell.");
  }
  const key = digestImportableKey(await readSecret(cli, keyFile), type, mode);
  return [{ mode, key, settings }];
};

/** One part of a path. */
const parseSlug = parserOf(
  textField(200).regex(/^[^/?#\s]+$/u),
  "1 to 200 characters without slashes, question marks, number signs and spaces",
);

export const addImportCommands: Define = (group, cli) => {
  addImportHistoryCommand(group, cli);

  const importing = addChange(
    group,
    "key",
    "Import an API key of another system, or all of an account in another cell",
  )
    .requiredOption(...ACCOUNT_OPTION)
    .option(...MODE)
    .option(
      "--key-file <file>",
      "file with the key, readable by its owner only (default: standard input)",
    )
    .option("--listed <file>", "what `key list --json` printed in another cell, or -", parsePath)
    .addHelpText("after", KEY_HELP);
  const readSettings = addKeySettings(importing, "imported");
  importing.action(async (options) => {
    const { account } = await cli.openAccount(options);
    const change = await cli.openChange(options);
    const keys = await readKeys(cli, account.type, options, readSettings(cli.clock.now()));
    const imported: Fields[] = [];
    for (const { mode, key, settings } of keys) {
      const { id, isNew } = await importKey(change, account, mode, key, settings);
      imported.push({ id, mode, key: `${key.hint}…`, new: isNew });
    }
    cli.printList(imported);
    cli.say(`${counted(imported.length, "imported key works", "imported keys work")} now.`);
  });

  addChange(group, "slug", "Redirect the slug of an old dashboard to the organization's dashboard")
    .argument("<slug>", "the last part of the old dashboard's path", parseSlug)
    .requiredOption(...ORGANIZATION_OPTION)
    .action(async (slug, options) => {
      const deps = await cli.openChange(options);
      const { id } = requireOrganization(await getNamedAccount(deps.db, options.org));
      const { dashboardSlug, isNew } = await importSlug(deps, id, slug);
      cli.printResult({ slug, dashboard_slug: dashboardSlug, new: isNew });
      cli.say(
        slug === dashboardSlug
          ? `/dashboard/${slug} is the dashboard itself.`
          : `/dashboard/${slug} redirects to /dashboard/${dashboardSlug}${isNew ? "" : " already"}.`,
      );
    });
};
