import type { DatabasePool } from "slonik";
import { findRefundedDonationId, insertDonationRefund } from "../db/donationRefunds.ts";
import { findDonation, lockDonation, markDonationRefunded } from "../db/donations.ts";
import { changeDonationTotals, readDonationTotals } from "../db/donationTotals.ts";
import type { Clock } from "../domain/clock.ts";
import type { Donation, DonationOwner } from "../domain/donations.ts";
import { DomainError } from "../domain/errors.ts";
import type { Metadata } from "../domain/registrations.ts";

export type RefundedDonation = {
  readonly donation: Donation;
  /** Donations that remain. */
  readonly totalDonations: number;
  /** Whether the refund was made by an earlier call. */
  readonly replayed: boolean;
};

/**
 * Refunds a donation whole: the record, its refund and the totals change in one transaction. A donation that is refunded
 * already, and an idempotency key that is known, give the first refund again.
 * @throws DomainError record_not_found
 */
export const refundDonation = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  owner: DonationOwner,
  request: {
    readonly id: string;
    readonly reason: string | null;
    readonly idempotencyKey: string | null;
    readonly metadata: Metadata;
  },
): Promise<RefundedDonation> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const { idempotencyKey } = request;
    const answer = async (donation: Donation, replayed: boolean): Promise<RefundedDonation> => {
      const { all } = await readDonationTotals(transaction, owner, now);
      return { donation: { ...donation, refunded: true }, totalDonations: all.count, replayed };
    };
    const knownId =
      idempotencyKey && (await findRefundedDonationId(transaction, owner, idempotencyKey));
    const donation = await lockDonation(transaction, owner, knownId || request.id);
    if (!donation) {
      throw new DomainError("record_not_found", "failed to find donation");
    }
    if (!donation.refunded) {
      const refund = { ...request, donationId: donation.id, createdAt: now };
      if (await insertDonationRefund(transaction, owner, refund)) {
        await markDonationRefunded(transaction, donation.id, now);
        await changeDonationTotals(transaction, owner, donation, "subtract");
        return answer(donation, false);
      }
      // A concurrent call has used the key for another donation.
      const otherId =
        idempotencyKey && (await findRefundedDonationId(transaction, owner, idempotencyKey));
      const other = otherId ? await findDonation(transaction, owner, otherId) : null;
      return answer(other ?? donation, true);
    }
    return answer(donation, true);
  });
