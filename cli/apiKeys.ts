import { setTimeout as delay } from "node:timers/promises";
import type { CommandUnknownOpts } from "@commander-js/extra-typings";
import { z } from "zod";
import type { ApiKey } from "../modules/accounts/apiKeys.sql.ts";
import { KEY_SCOPES } from "../modules/accounts/apiKeys.rules.ts";
import type { KeySettings } from "../modules/accounts/apiKeys.rules.ts";
import { DAY_MS } from "../runtime/durations.rules.ts";
import { CACHED_MS } from "../modules/accounts/cacheLookups.ts";
import { parseMode, parserOf, timestamp, trimmed } from "./arguments.ts";
import type { Cli } from "./command.ts";
import { snakeCased } from "./output/print.ts";
import { addSettings, oneOf } from "./settings.ts";

/** Parses when something expires. Ten years are enough for a rotation and too few for a mistyped century. */
const parseExpiry = parserOf(
  z.union([
    z
      .string()
      .regex(/^\d{1,4}d$/u)
      .transform((given) => Number(given.slice(0, -1)))
      .pipe(z.int().min(1).max(3660))
      .transform((days) => (now: Date) => new Date(now.getTime() + days * DAY_MS)),
    timestamp.transform((time) => () => time),
  ]),
  "a date in UTC (2027-01-31), a time (2027-01-31T12:00:00Z), or days from now (1d to 3660d)",
);

export const MODE = ["--mode <live|test>", "mode of the key", parseMode] as const;

const KEY_SETTINGS = {
  name: ["--name <name>", "what the key is for", trimmed(100)],
  scope: [
    `--scope <${KEY_SCOPES.join("|")}>`,
    "what the key allows; write, the default, includes reading",
    oneOf(KEY_SCOPES),
  ],
  expiryAt: [
    "--expires <time>",
    "when the key becomes invalid: a date (2027-01-31, its start in UTC), a time, or days from now (90d); default: never",
    parseExpiry,
  ],
} as const;

/** Adds the other options of a new key. Returns a function that returns its settings. */
export const addKeySettings = (
  command: CommandUnknownOpts,
  defaultName: string,
): ((now: Date) => KeySettings) => {
  const readSettings = addSettings(command, KEY_SETTINGS);
  return (now) => {
    const { name = defaultName, scope = "write", expiryAt } = readSettings();
    return { name, scope, expiresAt: expiryAt?.(now) ?? null };
  };
};

/** The JSON form of a key; of the key itself it has only the hint and the SHA-256, with which another cell imports it. */
export const presentKey = ({ accountId: _accountId, digest: sha256, ...key }: ApiKey) => ({
  ...snakeCased(key),
  sha256,
});

/** Timers may fire a millisecond early. */
const MARGIN_MS = 50;

/** Waits until no API process uses an account, key or store as it was before a change that is committed. */
export const awaitCachedKeys = async ({ say }: Cli): Promise<void> => {
  say(`Waiting ${CACHED_MS / 1000} seconds until every API process has noticed.`);
  await delay(CACHED_MS + MARGIN_MS);
};
