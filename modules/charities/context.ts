import type { CharityLookup, CharityValidation } from "./charities.rules.ts";
import type { Charities } from "./createCharities.ts";
import type { Context } from "../../runtime/context.ts";

/**
 * Validates the charity of a donation with its remote provider, durably, in the workflow `donation-<id>`.
 * @throws if there is no result in time
 */
export type ValidateCharity = (
  donationId: string,
  lookup: CharityLookup,
) => Promise<CharityValidation>;

export type CharityContext = Context & {
  readonly charities: Charities;
  readonly validateCharity: ValidateCharity;
};
