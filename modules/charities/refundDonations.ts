import type { DatabaseTransactionConnection } from "slonik";
import {
  claimRefundKeys,
  insertDonationRefunds,
  listDonationsByIds,
  lockDonations,
} from "./donationBatches.sql.ts";
import type { LockedDonation, NewDonationRefund } from "./donationBatches.sql.ts";
import { readDonationTotals } from "./donationTotals.sql.ts";
import { accountModeOf } from "../records/owner.rules.ts";
import type { AccountMode, AccountType } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { countBack, isAccepted, requireAll } from "../records/batches.rules.ts";
import { MAXIMUM_REFUND_KEYS } from "./donations.rules.ts";
import type { Donation } from "./donations.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { recordAction } from "../accounts/recordAction.ts";
import { createEvent } from "../events/recordEvent.ts";
import type { OperatorContext } from "../accounts/context.ts";
import type { Context } from "../../runtime/context.ts";
import { donationRefunded } from "./presentDonation.rules.ts";

export type DonationRefundRequest = NewDonationRefund["request"] & { readonly id: string };

export type RefundedDonation = {
  /** Without metadata if it is one of many: `readRefunded` reads a few at a time. */
  readonly donation: LockedDonation;
  /** Donations that are not refunded, after this refund. */
  readonly totalDonations: number;
  /** Whether an earlier call or item made the refund. */
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

/**
 * Returns why a refund's idempotency key cannot be used for a donation, or null.
 * @param keys the id of the donation that each key belongs to
 */
const findKeyProblem = (
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
      return new DomainError("record_not_found", "donation not found");
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

/**
 * Refunds whole donations in one transaction, in their order: the records, their refunds and the totals change. Refunding a
 * donation again returns the first refund. An idempotency key belongs to the donation that it was first used for.
 * @param items each refund, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @returns the outcome of each item; its error is record_not_found, or request_invalid if the key belongs to another donation
 *   or is one too many
 * @throws BatchRejectedError
 */
export const refundDonations = (
  { db, clock, actor }: Context & Partial<OperatorContext>,
  {
    accountType,
    ...caller
  }: AccountMode & {
    /** Absent for an organization. */
    readonly accountType?: AccountType;
  },
  items: readonly Outcome<DonationRefundRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<RefundedDonation>[]> =>
  db.transaction(async (transaction) => {
    if (isAtomic) {
      requireAll(items);
    }
    const owner = accountModeOf(caller);
    const now = clock.now();
    const requests = items.filter(isAccepted);
    const given = requests.map(({ id }) => id);
    const donations = await lockDonations(transaction, owner, given);
    const keys = await claimKeys(transaction, owner, requests, donations);
    const outcomes = decideAll(items, donations, keys);
    if (isAtomic) {
      requireAll(outcomes);
    }
    const refunds = outcomes.filter(isAccepted).filter(({ replayed }) => !replayed);
    // Stores have no such events.
    const events =
      accountType === "store"
        ? []
        : refunds.map(({ donation, request: { reason } }) =>
            createEvent(donationRefunded(donation, reason)),
          );
    const total =
      refunds.length === 0
        ? (await readDonationTotals(transaction, owner, now)).all.count
        : await insertDonationRefunds(transaction, owner, refunds, now, events);
    if (actor) {
      for (const { donation } of refunds) {
        await recordAction(transaction, actor, now, {
          action: "refund.donation",
          accountId: owner.accountId,
          subject: donation.id,
          details: { amountCents: donation.amountCents },
        });
      }
    }
    return countBack(
      outcomes,
      total,
      ({ replayed }) => (replayed ? 0 : -1),
      ({ donation, replayed }, totalDonations): RefundedDonation => ({
        donation: { ...donation, refunded: true },
        totalDonations,
        replayed,
      }),
    );
  });

/** Completes results with the metadata that they lack. */
export const readRefunded = async (
  { db }: Pick<Context, "db">,
  caller: AccountMode,
  done: readonly RefundedDonation[],
): Promise<readonly (RefundedDonation & { readonly donation: Donation })[]> => {
  const incomplete = done.flatMap(({ donation: { id, metadata } }) =>
    metadata === null ? id : [],
  );
  const donations =
    incomplete.length === 0 ? [] : await listDonationsByIds(db, accountModeOf(caller), incomplete);
  const byId = new Map(donations.map(({ id, metadata }) => [id, metadata]));
  return done.map((result) => {
    const metadata = result.donation.metadata ?? byId.get(result.donation.id);
    if (!metadata) {
      throw new Error(`Donation ${result.donation.id} was deleted in the meantime.`);
    }
    return { ...result, donation: { ...result.donation, metadata } };
  });
};
