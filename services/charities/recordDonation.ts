import type { DatabaseTransactionConnection } from "slonik";
import { insertDonation } from "../../db/charities/donations.ts";
import { changeDonationTotals } from "../../db/charities/donationTotals.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { ConfirmedCharity } from "../../domain/charities/charities.ts";
import type { Donation, NewDonation } from "../../domain/charities/donations.ts";

/** Returns the record of a donation whose charity is confirmed. */
export const createDonation = (
  { id, amountCents, charityName, idempotencyKey, attribution, metadata }: NewDonation,
  { charity, provider }: ConfirmedCharity,
  now: Date,
): Donation => ({
  id,
  importedId: null,
  amountCents,
  ein: charity.ein,
  nonprofitId: charity.nonprofitId,
  charityProvider: provider,
  charityName: charityName ?? charity.name,
  createdAt: now,
  idempotencyKey,
  attribution,
  metadata,
  refunded: false,
});

/**
 * Records a donation and adds it to the totals.
 * @returns null, with nothing recorded, if the owner already has a donation under the idempotency key
 * @throws DomainError request_invalid if a total would leave its range
 */
export const recordDonation = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  entry: NewDonation,
  confirmed: ConfirmedCharity,
  now: Date,
): Promise<Donation | null> => {
  const donation = createDonation(entry, confirmed, now);
  if (!(await insertDonation(transaction, owner, donation))) {
    return null;
  }
  await changeDonationTotals(transaction, owner, [donation], "add");
  return donation;
};
