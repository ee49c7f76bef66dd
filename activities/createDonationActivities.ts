import { Context } from "@temporalio/activity";
import type { DatabasePool } from "slonik";
import type { DonationOutcome } from "../domain/charities/donations.ts";
import type { Clock } from "../domain/clock.ts";
import type { Billing } from "../providers/billing/createBilling.ts";
import type { Charities } from "../providers/charities/createCharities.ts";
import type { CheckedDonation } from "../services/charities/checkDonation.ts";
import { checkDonation } from "../services/charities/checkDonation.ts";
import { recordDonation } from "../services/charities/recordDonation.ts";
import { withdrawDonation } from "../services/charities/withdrawDonation.ts";

export type DonationActivityDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
  readonly charities: Charities;
};

/** The activities of donations. Each is idempotent: its progress is stored in the database. */
export const createDonationActivities = (deps: DonationActivityDependencies) => ({
  checkDonation: (donationId: string): Promise<CheckedDonation> =>
    checkDonation(deps, donationId, Context.current().cancellationSignal),

  recordDonation: (
    donationId: string,
    checked: Extract<CheckedDonation, { readonly kind: "valid" }>,
  ): Promise<DonationOutcome> => recordDonation(deps, donationId, checked),

  /** Withdraws a request whose charity could not be checked. */
  withdrawDonation: (donationId: string): Promise<void> => withdrawDonation(deps, donationId),
});

export type DonationActivities = ReturnType<typeof createDonationActivities>;
