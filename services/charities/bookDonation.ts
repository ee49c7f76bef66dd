import type { DatabaseTransactionConnection } from "slonik";
import { insertDonation } from "../../db/charities/donations.ts";
import { changeDonationTotals } from "../../db/charities/donationTotals.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Donation } from "../../domain/charities/donations.ts";

/**
 * Records a donation and counts it in the totals.
 * @returns false when its id or its idempotency key is on record already, and nothing was done
 * @throws DomainError request_invalid when a total would leave its range
 */
export const bookDonation = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  donation: Donation,
): Promise<boolean> => {
  const isNew = await insertDonation(transaction, owner, donation);
  if (isNew) {
    await changeDonationTotals(transaction, owner, donation, "add");
  }
  return isNew;
};
