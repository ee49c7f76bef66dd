import { formatEin } from "./charities.rules.ts";
import type { Donation } from "./donations.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";

/** Returns what every event about a donation says of it. */
export const donationData = (
  donation: Pick<
    Donation,
    "id" | "importedId" | "amountCents" | "ein" | "nonprofitId" | "charityName"
  >,
) => ({
  donation_id: shownIdOf(donation),
  amount_cents: donation.amountCents,
  currency: "USD" as const,
  ein: donation.ein === null ? "" : formatEin(donation.ein),
  nonprofit_id: donation.nonprofitId,
  charity_name: donation.charityName,
});

/** Returns the event of a new donation. */
export const donationCreated = (donation: Donation) => ({
  type: "donation.created" as const,
  data: {
    ...donationData(donation),
    idempotency_key: donation.idempotencyKey ?? "",
    attribution: donation.attribution,
    metadata: donation.metadata,
  },
});
