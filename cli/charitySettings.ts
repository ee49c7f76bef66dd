import type { CharityProviderName } from "../modules/accounts/accounts.rules.ts";
import { missingCharitySettings } from "../modules/charities/createCharities.ts";
import type { CliContext } from "./context.ts";
import { say } from "./io.ts";

/** Warns an operator who selects a provider without its API key: every search and donation would fail. */
export const warnAboutCharityProvider = (
  { io, connections }: CliContext,
  provider: CharityProviderName,
): void => {
  const missing = missingCharitySettings(connections.config(), provider).join(" or ");
  if (missing !== "") {
    say(
      io,
      `Warning: ${missing} is not set here. Unless the API and the workers have it, every charity search and donation of the account fails.`,
    );
  }
};
