import type { Command } from "commander";
import { Option } from "commander";
import type { DatabasePool } from "slonik";
import type { AccountType, Mode } from "../../../domain/accounts/accounts.ts";
import { KEY_SCOPES } from "../../../domain/accounts/apiKeys.ts";
import type { KeyScope, KeySettings } from "../../../domain/accounts/apiKeys.ts";
import { getOrganization } from "../../../services/accounts/getOrganization.ts";
import { parseExpiry, parseId, parseKeyName, parseMode } from "../../arguments.ts";
import type { Expiry } from "../../arguments.ts";
import type { Context } from "../../context.ts";
import { CommandError, EXIT } from "../../exitCodes.ts";
import { findNamedStore } from "../stores/findNamedStore.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

export type KeyAccountOptions = { readonly org?: string; readonly store?: string };

/** Adds the options that name the account of keys. */
export const withKeyAccount = (command: Command): Command =>
  command
    .addOption(
      new Option("--org <id>", "id of the organization").argParser(parseId).conflicts("store"),
    )
    .option("--store <store>", "domain or id of the store");

/** Opens the database and finds the organization or the store that a command names. */
export const openKeyAccount = async (
  { connections }: Context,
  { org, store }: KeyAccountOptions,
): Promise<{
  readonly db: DatabasePool;
  readonly account: { readonly id: string; readonly type: AccountType };
}> => {
  if (org !== undefined) {
    const db = await connections.database();
    return { db, account: await getOrganization(db, org) };
  }
  if (store !== undefined) {
    const db = await connections.database();
    return { db, account: { id: (await findNamedStore(db, store)).id, type: "store" } };
  }
  throw new CommandError(EXIT.usage, "Pass --org or --store.");
};

export type NewKeyOptions = {
  readonly mode: Mode;
  readonly name: string;
  readonly scope: KeyScope;
  readonly expires?: Expiry;
};

/** Adds the options of a new key. */
export const withKeySettings = (command: Command, defaultName: string): Command =>
  command
    .requiredOption("--mode <live|test>", "mode of the key", parseMode)
    .option("--name <name>", "what the key is for", parseKeyName, defaultName)
    .addOption(
      new Option("--scope <scope>", "what the key allows; write includes reading")
        .choices(KEY_SCOPES)
        .default("write"),
    )
    .option(
      "--expires <time>",
      "when the key becomes invalid: a date (2027-01-31, its start in UTC), a time, or days from now (90d); default: never",
      parseExpiry,
    );

export const keySettingsOf = ({ name, scope, expires }: NewKeyOptions, now: Date): KeySettings => {
  if (expires === undefined) {
    return { name, scope, expiresAt: null };
  }
  const expiresAt =
    expires instanceof Date ? expires : new Date(now.getTime() + expires.days * DAY_MS);
  return { name, scope, expiresAt };
};
