import type { CharityProviderName } from "../../../domain/accounts/accounts.ts";
import type { CliContext } from "../../context.ts";
import { say } from "../../io.ts";
import { missingCharitySettings } from "../../missingCharitySettings.ts";

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
