import type { Command } from "commander";
import { Option } from "commander";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import { KEY_SCOPES } from "../../../domain/accounts/apiKeys.ts";
import type { KeyScope, KeySettings } from "../../../domain/accounts/apiKeys.ts";
import { DAY_MS } from "../../../domain/durations.ts";
import { parseExpiry, parseKeyName, parseMode } from "../../arguments.ts";
import type { Expiry } from "../../arguments.ts";

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
