import type { CharityLookup, CharityValidation } from "../../domain/charities/charities.ts";
import type { Charities } from "../../providers/charities/createCharities.ts";
import type { Context } from "../context.ts";

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
