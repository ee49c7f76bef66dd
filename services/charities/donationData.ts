import { formatEin } from "../../domain/charities/charities.ts";
import type { Donation } from "../../domain/charities/donations.ts";
import { shownIdOf } from "../../domain/recordIds.ts";

/** Returns what every event about a donation says of it. */
export const donationData = (donation: Donation) => ({
  donation_id: shownIdOf(donation),
  amount_cents: donation.amountCents,
  currency: "USD" as const,
  ein: donation.ein === null ? "" : formatEin(donation.ein),
  nonprofit_id: donation.nonprofitId,
  charity_name: donation.charityName,
});
