import { setTimeout as delay } from "node:timers/promises";
import { Option } from "@commander-js/extra-typings";
import type { Command, OptionValues } from "@commander-js/extra-typings";
import { z } from "zod";
import type { ApiKey } from "../modules/accounts/apiKeys.sql.ts";
import { KEY_SCOPES } from "../modules/accounts/apiKeys.rules.ts";
import type { KeyScope, KeySettings } from "../modules/accounts/apiKeys.rules.ts";
import { DAY_MS } from "../runtime/durations.rules.ts";
import { CACHED_MS } from "../modules/accounts/cacheLookups.ts";
import { parseMode, parserOf, timestamp, trimmed } from "./arguments.ts";
import { say } from "./io.ts";
import type { Io } from "./io.ts";

/** A time, or a number of days from now. */
type Expiry = Date | { readonly days: number };

export type NewKeyOptions = {
  readonly name: string;
  readonly scope: KeyScope;
  readonly expires?: Expiry;
};

/** Parses when something expires. Ten years are enough for a rotation and too few for a mistyped century. */
const parseExpiry = parserOf<Expiry>(
  z.union([
    z
      .string()
      .regex(/^\d{1,4}d$/u)
      .transform((given) => Number(given.slice(0, -1)))
      .pipe(z.int().min(1).max(3660))
      .transform((days) => ({ days })),
    timestamp,
  ]),
  "a date in UTC (2027-01-31), a time (2027-01-31T12:00:00Z), or days from now (1d to 3660d)",
);

const parseKeyName = trimmed(100);

/** The mode of a new key. */
export const MODE = ["--mode <live|test>", "mode of the key", parseMode] as const;

/** Adds the other options of a new key. */
export const withKeySettings = <
  Args extends unknown[],
  Options extends OptionValues,
  Global extends OptionValues,
>(
  command: Command<Args, Options, Global>,
  defaultName: string,
) =>
  command
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

/** The JSON form of a key; of the key itself it has only the hint and the SHA-256, with which another cell imports it. */
export const presentKey = (key: ApiKey) => ({
  id: key.id,
  name: key.name,
  mode: key.mode,
  scope: key.scope,
  hint: key.hint,
  sha256: key.digest,
  created_at: key.createdAt,
  expires_at: key.expiresAt,
  last_used_at: key.lastUsedAt,
  revoked_at: key.revokedAt,
});

/** Returns what text shows of a key: not its SHA-256, which is for another cell. */
export const shownKey = ({ sha256: _digest, ...key }: ReturnType<typeof presentKey>) => key;

/** Timers may fire a millisecond early. */
const MARGIN_MS = 50;

/** Waits until no API process uses an account, key or store as it was before a change that is committed. */
export const awaitCachedKeys = async (io: Io): Promise<void> => {
  say(io, `Waiting ${CACHED_MS / 1000} seconds until every API process has noticed.`);
  await delay(CACHED_MS + MARGIN_MS);
};
