import type { Config } from "../runtime/config/config.ts";
import type { CharityProviderName } from "../modules/accounts/accounts.rules.ts";
import { readCharitySettings } from "../modules/charities/createCharities.ts";
import type { CliContext } from "./context.ts";
import { say } from "./io.ts";

const SETTINGS = {
  everyorg: "EVERYORG_API_KEY",
  change: "CHANGE_PUBLIC_KEY or CHANGE_SECRET_KEY",
  pledge: "PLEDGE_API_KEY",
} as const;

/** Returns the setting that a charity provider lacks; null if it needs none or has it. */
export const missingCharitySettings = (
  config: Config,
  provider: CharityProviderName,
): string | null =>
  provider === "catalogue" || readCharitySettings(config)[provider] !== null
    ? null
    : SETTINGS[provider];

/** Warns an operator who selects a provider without its API key: every search and donation would fail. */
export const warnAboutCharityProvider = (
  { io, connections }: CliContext,
  provider: CharityProviderName,
): void => {
  const missing = missingCharitySettings(connections.config(), provider);
  if (missing !== null) {
    say(
      io,
      `Warning: ${missing} is not set here. Unless the API and the workers have it, every charity search and donation of the account fails.`,
    );
  }
};
