import { Context } from "@temporalio/activity";
import type { CharityLookup, CharityValidation } from "../domain/charities/charities.ts";
import type { Charities } from "../providers/charities/createCharities.ts";
import { validateCharity } from "../services/charities/confirmCharity.ts";

export type DonationActivityDependencies = { readonly charities: Charities };

/** The activities of donations, which run on the interactive queue because clients wait for them. */
export const createDonationActivities = (deps: DonationActivityDependencies) => ({
  validateCharity: (lookup: CharityLookup): Promise<CharityValidation> =>
    validateCharity(deps, lookup, Context.current().cancellationSignal),
});

export type DonationActivities = ReturnType<typeof createDonationActivities>;
