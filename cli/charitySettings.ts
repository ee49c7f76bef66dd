import type { CharityProviderName } from "../modules/accounts/accounts.rules.ts";
import { missingCharitySettings } from "../modules/charities/createCharities.ts";
import type { Cli } from "./command.ts";

/** Warns an operator who selects a provider without its API key: every search and donation would fail. */
export const warnAboutCharityProvider = (
  { connections, say }: Cli,
  provider: CharityProviderName,
): void => {
  const missing = missingCharitySettings(connections.config(), provider).join(" or ");
  if (missing !== "") {
    say(
      `Warning: ${missing} is not set here. Unless the API and the workers have it, every charity search and donation of the account fails.`,
    );
  }
};
