import type { DatabaseTransactionConnection } from "slonik";
import { insertDonationRefund } from "../../db/charities/donationRefunds.ts";
import { markDonationRefunded } from "../../db/charities/donations.ts";
import { changeDonationTotals } from "../../db/charities/donationTotals.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Donation } from "../../domain/charities/donations.ts";

/** Records the refund of a donation, which must be under its lock and not refunded, and takes it out of the totals. */
export const bookDonationRefund = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  donation: Pick<Donation, "id" | "amountCents" | "createdAt">,
  refund: Omit<Parameters<typeof insertDonationRefund>[2], "donationId">,
): Promise<void> => {
  const isNew = await insertDonationRefund(transaction, owner, {
    ...refund,
    donationId: donation.id,
  });
  if (!isNew) {
    throw new Error(`Donation ${donation.id} is not refunded, yet there is a refund of it.`);
  }
  await markDonationRefunded(transaction, donation.id, refund.createdAt);
  await changeDonationTotals(transaction, owner, donation, "subtract");
};
