import type { Config } from "../config/config.ts";
import type { CharityProviderName } from "../domain/accounts/accounts.ts";
import { readCharitySettings } from "../program/settings/readCharitySettings.ts";

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
