import { lockNamed } from "../records/ownedRecords.sql.ts";
import type { DatabaseTransactionConnection } from "slonik";
import { claimRefundKeys, lockDonations } from "./donationBatches.sql.ts";
import type { LockedDonation } from "./donationBatches.sql.ts";
import { readDonationTotals } from "./donationTotals.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { countBack, isAccepted, requireAll } from "../records/batches.rules.ts";
import { recordEvents } from "../events/recordEvent.ts";
import type { Context } from "../../runtime/context.ts";
import { donationRefunded } from "./presentDonation.rules.ts";
import { donationNotFound, findKeyProblem, recordDonationRefunds } from "./refundDonation.ts";
import type { DonationRefundRequest } from "./refundDonation.ts";

/** A refund of a batch. The donation itself is read when it is needed, because a batch may have a thousand of them. */
type RefundedDonationItem = {
  readonly donationId: string;
  /** Donations that are not refunded, after this refund. */
  readonly totalDonations: number;
  readonly replayed: boolean;
};

/** A refund that is decided. */
type Decision = {
  readonly request: DonationRefundRequest;
  readonly donation: LockedDonation;
  readonly replayed: boolean;
};

/** Assigns each key of the items to the first donation that they use it for, unless it belongs to one or is one too many. */
const claimKeys = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  requests: readonly DonationRefundRequest[],
  donations: ReadonlyMap<string, LockedDonation>,
): Promise<ReadonlyMap<string, string>> => {
  const claims = new Map<string, string>();
  for (const { id, idempotencyKey } of requests) {
    const donation = donations.get(id);
    if (idempotencyKey !== null && donation && !claims.has(idempotencyKey)) {
      claims.set(idempotencyKey, donation.id);
    }
  }
  return claims.size === 0 ? claims : claimRefundKeys(transaction, owner, claims);
};

/** Decides the items in their order, as if each were a call of its own. */
const decideAll = (
  items: readonly Outcome<DonationRefundRequest>[],
  donations: ReadonlyMap<string, LockedDonation>,
  keys: ReadonlyMap<string, string>,
): readonly Outcome<Decision>[] => {
  const refunded = new Set<string>();
  return items.map((request): Outcome<Decision> => {
    if (!isAccepted(request)) {
      return request;
    }
    const donation = donations.get(request.id);
    if (!donation) {
      return donationNotFound();
    }
    const problem = findKeyProblem(keys, request.idempotencyKey, donation.id);
    if (problem) {
      return problem;
    }
    const replayed = donation.refunded || refunded.has(donation.id);
    refunded.add(donation.id);
    return { request, donation, replayed };
  });
};

const recordRefunds = async (
  transaction: DatabaseTransactionConnection,
  owner: AccountMode,
  decisions: readonly Decision[],
  now: Date,
): Promise<void> => {
  await recordDonationRefunds(transaction, owner, decisions, now);
  await recordEvents(
    transaction,
    owner,
    now,
    decisions.map(({ donation, request }) => donationRefunded(donation, request.reason)),
  );
};

/**
 * Refunds donations in one transaction, in their order, each as `refundDonation` would.
 * @param items each refund, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @throws BatchRejectedError
 */
export const refundDonationBatch = async (
  { db, clock }: Context,
  owner: AccountMode,
  items: readonly Outcome<DonationRefundRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<RefundedDonationItem>[]> => {
  if (isAtomic) {
    requireAll(items);
  }
  return db.transaction(async (transaction) => {
    const now = clock.now();
    const requests = items.filter(isAccepted);
    const given = requests.map(({ id }) => id);
    const donations = await lockNamed(transaction, "donation", owner, given, lockDonations);
    const keys = await claimKeys(transaction, owner, requests, donations);
    const outcomes = decideAll(items, donations, keys);
    if (isAtomic) {
      requireAll(outcomes);
    }
    const decisions = outcomes.filter(isAccepted).filter(({ replayed }) => !replayed);
    if (decisions.length > 0) {
      await recordRefunds(transaction, owner, decisions, now);
    }
    const { all } = await readDonationTotals(transaction, owner, now);
    return countBack(
      outcomes,
      all.count,
      ({ replayed }) => (replayed ? 0 : -1),
      ({ donation, replayed }, totalDonations): RefundedDonationItem => ({
        donationId: donation.id,
        totalDonations,
        replayed,
      }),
    );
  });
};
