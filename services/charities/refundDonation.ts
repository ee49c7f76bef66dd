import type { DatabasePool } from "slonik";
import { keepRefundKey } from "../../db/charities/donationRefunds.ts";
import { lockDonation } from "../../db/charities/donations.ts";
import { readDonationTotals } from "../../db/charities/donationTotals.ts";
import type { AccountMode } from "../../domain/accounts/accounts.ts";
import type { Clock } from "../../domain/clock.ts";
import type { Donation } from "../../domain/charities/donations.ts";
import { DomainError } from "../../domain/errors.ts";
import type { Metadata } from "../../domain/registrations/registrations.ts";
import { bookDonationRefund } from "./bookDonationRefund.ts";

export type RefundedDonation = {
  readonly donation: Donation;
  /** Donations that remain. */
  readonly totalDonations: number;
  /** Whether the refund was made by an earlier call. */
  readonly replayed: boolean;
};

/**
 * Refunds a donation whole: the record, its refund and the totals change in one transaction. A donation that is refunded
 * already gives its first refund again. An idempotency key stands for the donation that it was first given with.
 * @throws DomainError record_not_found; request_invalid when the key stands for another donation
 */
export const refundDonation = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  owner: AccountMode,
  request: {
    readonly id: string;
    readonly reason: string | null;
    readonly idempotencyKey: string | null;
    readonly metadata: Metadata;
  },
): Promise<RefundedDonation> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const { id, idempotencyKey } = request;
    const donation = await lockDonation(transaction, owner, id);
    if (!donation) {
      throw new DomainError("record_not_found", "failed to find donation");
    }
    if (
      idempotencyKey !== null &&
      (await keepRefundKey(transaction, owner, idempotencyKey, donation.id)) !== donation.id
    ) {
      throw new DomainError(
        "request_invalid",
        "idempotency_key: belongs to the refund of another donation",
      );
    }
    if (!donation.refunded) {
      await bookDonationRefund(transaction, owner, donation, { ...request, createdAt: now });
    }
    const { all } = await readDonationTotals(transaction, owner, now);
    return {
      donation: { ...donation, refunded: true },
      totalDonations: all.count,
      replayed: donation.refunded,
    };
  });
