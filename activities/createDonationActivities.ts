import { Context } from "@temporalio/activity";
import type { DatabasePool } from "slonik";
import type { Clock } from "../domain/clock.ts";
import type { DonationOutcome } from "../domain/charities/donations.ts";
import type { Billing } from "../providers/billing/createBilling.ts";
import type { Charities } from "../providers/charities/createCharities.ts";
import type { CheckedDonation } from "../services/charities/checkDonation.ts";
import { checkDonation } from "../services/charities/checkDonation.ts";
import { recordDonation } from "../services/charities/recordDonation.ts";
import { withdrawDonation } from "../services/charities/withdrawDonation.ts";

/** The activities that somebody waits for. Each may be repeated at any point: what it did stands in the database. */
export const createDonationActivities = (deps: {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
  readonly charities: Charities;
}) => ({
  checkDonation: (donationId: string): Promise<CheckedDonation> =>
    checkDonation(deps, donationId, Context.current().cancellationSignal),

  recordDonation: (
    donationId: string,
    checked: Extract<CheckedDonation, { readonly kind: "valid" }>,
  ): Promise<DonationOutcome> => recordDonation(deps, donationId, checked),

  /** Has a request that could not be checked wait no longer. */
  withdrawDonation: (donationId: string): Promise<void> => withdrawDonation(deps, donationId),
});

export type DonationActivities = ReturnType<typeof createDonationActivities>;
