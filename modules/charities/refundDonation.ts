import type { DatabaseTransactionConnection } from "slonik";
import { claimRefundKeys, insertDonationRefunds } from "./donationBatches.sql.ts";
import type { NewDonationRefund } from "./donationBatches.sql.ts";
import { lockDonation } from "./donations.sql.ts";
import { changeDonationTotals, readDonationTotals } from "./donationTotals.sql.ts";
import type { AccountMode, AccountType } from "../records/owner.rules.ts";
import { MAXIMUM_REFUND_KEYS } from "./donations.rules.ts";
import type { Donation } from "./donations.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { recordEvent } from "../events/recordEvent.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Context } from "../../runtime/context.ts";
import { donationRefunded } from "./presentDonation.rules.ts";

type RefundedDonation = {
  readonly donation: Donation;
  /** Donations that are not refunded. */
  readonly totalDonations: number;
  /** Whether an earlier call made the refund. */
  readonly replayed: boolean;
};

export type DonationRefundRequest = Omit<NewDonationRefund, "donationId"> & {
  readonly id: string;
};

export const donationNotFound = (): DomainError =>
  new DomainError("record_not_found", "donation not found");

/**
 * Returns why a refund's idempotency key cannot be used for a donation, or null.
 * @param keys the id of the donation that each key belongs to
 */
export const findKeyProblem = (
  keys: ReadonlyMap<string, string>,
  idempotencyKey: string | null,
  donationId: string,
): DomainError | null => {
  const owner = idempotencyKey === null ? donationId : keys.get(idempotencyKey);
  if (owner === donationId) {
    return null;
  }
  return invalidRequest(
    owner === undefined
      ? `idempotency_key: the refund of this donation has ${MAXIMUM_REFUND_KEYS} keys already; use one of them, or none`
      : "idempotency_key: belongs to the refund of another donation",
  );
};

/**
 * Records refunds of locked donations that are not refunded yet, and subtracts the donations from the totals. Call it once
 * in a transaction: it locks the all-time total last, so that concurrent changes of several months cannot deadlock.
 */
export const recordDonationRefunds = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  refunds: readonly {
    readonly donation: Pick<Donation, "id" | "amountCents" | "createdAt">;
    readonly request: Omit<NewDonationRefund, "donationId">;
  }[],
  refundedAt: Date,
): Promise<void> => {
  const inserted = await insertDonationRefunds(
    transaction,
    owner,
    refunds.map(({ donation, request: { reason, idempotencyKey, metadata } }) => ({
      donationId: donation.id,
      reason,
      idempotencyKey,
      metadata,
    })),
    refundedAt,
  );
  if (inserted < refunds.length) {
    throw new Error("Some donations are not refunded, yet refunds of them exist.");
  }
  await changeDonationTotals(
    transaction,
    owner,
    refunds.map(({ donation }) => donation),
    "subtract",
  );
};

/**
 * Refunds a whole donation: the record, its refund and the totals change in one transaction. Refunding it again returns
 * the first refund. An idempotency key belongs to the donation that it was first used for.
 * @throws DomainError record_not_found, or request_invalid if the key belongs to another donation or is one too many
 */
export const refundDonation = (
  { db, clock, actor }: Context & Partial<OperatorContext>,
  owner: AccountMode & {
    /** Absent for an organization. */
    readonly accountType?: AccountType;
  },
  { id, ...request }: DonationRefundRequest,
): Promise<RefundedDonation> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const { idempotencyKey } = request;
    const donation = await lockDonation(transaction, owner, id);
    if (!donation) {
      throw donationNotFound();
    }
    if (idempotencyKey !== null) {
      const claim = new Map([[idempotencyKey, donation.id]]);
      const keys = await claimRefundKeys(transaction, owner, claim);
      const problem = findKeyProblem(keys, idempotencyKey, donation.id);
      if (problem) {
        throw problem;
      }
    }
    if (!donation.refunded) {
      await recordDonationRefunds(transaction, owner, [{ donation, request }], now);
      // Stores have no such events.
      if (owner.accountType !== "store") {
        await recordEvent(transaction, owner, now, donationRefunded(donation, request.reason));
      }
      if (actor) {
        const { accountId } = owner;
        const { amountCents } = donation;
        await recordAction(transaction, actor, now, {
          action: "refund.donation",
          accountId,
          subject: donation.id,
          details: { amountCents },
        });
      }
    }
    const { all } = await readDonationTotals(transaction, owner, now);
    return {
      donation: { ...donation, refunded: true },
      totalDonations: all.count,
      replayed: donation.refunded,
    };
  });
