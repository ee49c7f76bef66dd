import { claimRefundKeys, insertDonationRefunds, lockDonations } from "./donationBatches.sql.ts";
import type { LockedDonation, NewDonationRefund } from "./donationBatches.sql.ts";
import { readDonationTotals } from "./donationTotals.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { countBack, isAccepted, requireAll } from "../records/batches.rules.ts";
import type { WrittenDonation } from "./readDonations.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { createEvent } from "../events/recordEvent.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Context } from "../../runtime/context.ts";
import { donationRefunded } from "./donations.rules.ts";

type DonationRefundRequest = NewDonationRefund["request"] & { readonly id: string };

type RefundedDonation = WrittenDonation & {
  /** Donations that are not refunded, after this refund. */
  readonly totalDonations: number;
  readonly replayed: boolean;
};

type Decision = {
  readonly request: DonationRefundRequest;
  readonly donation: LockedDonation;
  readonly replayed: boolean;
};

const decideAll = (
  requests: readonly DonationRefundRequest[],
  donations: ReadonlyMap<string, LockedDonation>,
  keyOwners: ReadonlyMap<string, string>,
): readonly Outcome<Decision>[] => {
  const refunded = new Set<string>();
  return requests.map((request): Outcome<Decision> => {
    const { id, idempotencyKey: key } = request;
    const donation = donations.get(id);
    if (!donation) {
      return new DomainError("record_not_found", "donation not found");
    }
    if (key !== null && keyOwners.get(key) !== donation.id) {
      return invalidRequest("idempotency_key: belongs to the refund of another donation");
    }
    const replayed = donation.refunded || refunded.has(donation.id);
    refunded.add(donation.id);
    return { request, donation, replayed };
  });
};

/** Returns the donation that each new idempotency key is for: the first one that it is used for. */
const donationsOfKeys = (
  requests: readonly DonationRefundRequest[],
  donations: ReadonlyMap<string, LockedDonation>,
): ReadonlyMap<string, string> =>
  new Map(
    requests.toReversed().flatMap(({ id, idempotencyKey }) => {
      const donation = donations.get(id);
      return donation && idempotencyKey !== null ? [[idempotencyKey, donation.id] as const] : [];
    }),
  );

/**
 * Refunds whole donations in one transaction, in their order: the records and the totals change. Refunding a donation again
 * returns the first refund. An idempotency key belongs to the donation that it was first used for.
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @returns the outcome of each item; its error is record_not_found, or request_invalid if the key belongs to another donation
 * @throws BatchRejectedError
 */
export const refundDonations = (
  { db, clock, actor }: Context & Partial<OperatorContext>,
  owner: AccountMode,
  requests: readonly DonationRefundRequest[],
  isAtomic: boolean,
): Promise<readonly Outcome<RefundedDonation>[]> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const ids = requests.map(({ id }) => id);
    const donations = await lockDonations(transaction, owner, ids);
    const keys = donationsOfKeys(requests, donations);
    const keyOwners = await claimRefundKeys(transaction, owner, keys);
    const decided = decideAll(requests, donations, keyOwners);
    if (isAtomic) {
      requireAll(decided);
    }
    const refunds = decided.filter(isAccepted).filter(({ replayed }) => !replayed);
    const events = refunds.map(({ donation, request }) =>
      createEvent(donation, donationRefunded(donation, request.reason)),
    );
    const count =
      refunds.length > 0
        ? await insertDonationRefunds(transaction, refunds, now, events)
        : (await readDonationTotals(transaction, owner)).count;
    if (actor) {
      for (const { donation } of refunds) {
        await recordAction(transaction, actor, now, {
          action: "refund.donation",
          accountId: donation.accountId,
          subject: donation.id,
          details: { amountCents: donation.amountCents },
        });
      }
    }
    return countBack(
      decided,
      count,
      ({ replayed }) => (replayed ? 0 : -1),
      ({ donation, replayed }, totalDonations): RefundedDonation => ({
        id: donation.id,
        key: null,
        donation: null,
        totalDonations,
        replayed,
      }),
    );
  });
