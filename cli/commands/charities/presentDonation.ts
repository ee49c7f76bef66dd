import { formatEin } from "../../../domain/charities/charities.ts";
import { shownIdOf } from "../../../domain/recordIds.ts";
import type { Donation } from "../../../domain/charities/donations.ts";

export const einOf = ({ ein }: Donation): string | null => ein && formatEin(ein);

/** A donation in the CLI's JSON output. */
export const presentDonation = (donation: Donation) => ({
  id: shownIdOf(donation),
  amount_cents: donation.amountCents,
  currency: "USD",
  ein: einOf(donation),
  nonprofit_id: donation.nonprofitId,
  charity_provider: donation.charityProvider,
  charity_name: donation.charityName,
  created_at: donation.createdAt,
  idempotency_key: donation.idempotencyKey,
  attribution: donation.attribution,
  metadata: donation.metadata,
  refunded: donation.refunded,
});
