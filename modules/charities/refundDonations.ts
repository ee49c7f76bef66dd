import { LOCKED } from "../../db/batching/createGroupCommit.ts";
import { createRequestWriter } from "../../db/batching/createRequestWriter.ts";
import {
  claimRefundKeys,
  insertDonationRefunds,
  listDonationsByIds,
  lockDonations,
} from "./donationBatches.sql.ts";
import type { LockedDonation, NewDonationRefund } from "./donationBatches.sql.ts";
import { readCounts } from "./donationTotals.sql.ts";
import { accountModeKey, accountModeOf } from "../records/owner.rules.ts";
import type { AccountMode, AccountType } from "../records/owner.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { completeOutcomes, countBack, isAccepted, requireAll } from "../records/batches.rules.ts";
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

/** The type is absent for an organization. */
type RefundOwner = AccountMode & { readonly accountType?: AccountType };

/** A refund to write. */
type Entry = RefundOwner & DonationRefundRequest;

/** A refund that is decided. */
type Decision = {
  readonly request: Entry;
  readonly donation: LockedDonation;
  readonly replayed: boolean;
};

/** Decides the entries in their order, as if each were a call of its own. */
const decideAll = (
  entries: readonly Entry[],
  donations: ReadonlyMap<Entry, LockedDonation>,
  keys: ReadonlyMap<number, string>,
): readonly Outcome<Decision>[] => {
  const refunded = new Set<string>();
  return entries.map((request, place): Outcome<Decision> => {
    const donation = donations.get(request);
    if (!donation) {
      return new DomainError("record_not_found", "donation not found");
    }
    const keyOwner = request.idempotencyKey === null ? donation.id : keys.get(place);
    if (keyOwner !== donation.id) {
      return invalidRequest("idempotency_key: belongs to the refund of another donation");
    }
    const replayed = donation.refunded || refunded.has(donation.id);
    refunded.add(donation.id);
    return { request, donation, replayed };
  });
};

type WriteOutcome = Outcome<RefundedDonation> | typeof LOCKED;

/**
 * Refunds donations in one transaction.
 * @param options.isAtomic whether nothing is recorded if any entry is rejected
 * @param options.skipsLocked whether the entries of accounts with a donation that another transaction has locked are left out
 * @throws BatchRejectedError
 */
const write = (
  { db, clock, actor }: Context & Partial<OperatorContext>,
  entries: readonly Entry[],
  { isAtomic = false, skipsLocked = false, withMetadata = true },
): Promise<readonly WriteOutcome[]> =>
  db.transaction(async (transaction) => {
    const now = clock.now();
    const donations = await lockDonations(transaction, entries, { skipsLocked, withMetadata });
    // One that is not found may be locked: without others, its account's entries wait for it.
    const missing = skipsLocked ? entries.filter((entry) => !donations.has(entry)) : [];
    const postponed = new Set(missing.map(({ accountId }) => accountId));
    const ready = entries.filter(({ accountId }) => !postponed.has(accountId));
    const keys = await claimRefundKeys(transaction, ready, donations);
    const outcomes = decideAll(ready, donations, keys);
    if (isAtomic) {
      requireAll(outcomes);
    }
    const decisions = outcomes.filter(isAccepted);
    const refunds = decisions.filter(({ replayed }) => !replayed);
    const events = refunds.map(({ donation, request }) =>
      createEvent(donation, donationRefunded(donation, request.reason)),
    );
    const counts =
      refunds.length === 0 ? {} : await insertDonationRefunds(transaction, refunds, now, events);
    const donors = decisions.map(({ donation }) => donation);
    const totals = await readCounts(transaction, donors, counts);
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
    const results = countBack(
      outcomes,
      totals,
      ({ donation, replayed }) => ({ owner: accountModeKey(donation), change: replayed ? 0 : -1 }),
      ({ donation, replayed }, totalDonations): RefundedDonation => ({
        donation: { ...donation, refunded: true },
        totalDonations,
        replayed,
      }),
    );
    const written = new Map(ready.map((entry, index) => [entry, results[index]]));
    return entries.map((entry) => written.get(entry) ?? LOCKED);
  });

/** Each donation may have 64 KiB of metadata. */
const MAXIMUM_WITH_METADATA = 10;

/** Writes the refunds of concurrent requests together. */
export const createDonationRefundWriter = (context: Context) => ({
  writeDonationRefunds: createRequestWriter<Entry, WriteOutcome>(
    context.tracing,
    (entries, { isAlone }) => write(context, entries, { skipsLocked: !isAlone }),
  ),
});

export type DonationRefundWriter = ReturnType<typeof createDonationRefundWriter>;

/**
 * Refunds whole donations in one transaction, in their order: the records, their refunds and the totals change. Refunding a
 * donation again returns the first refund. An idempotency key belongs to the donation that it was first used for.
 * @param context.writeDonationRefunds if several calls run at the same time
 * @param items each refund, or why it is rejected already
 * @param isAtomic whether nothing is recorded if any item is rejected; otherwise the other items are recorded
 * @returns the outcome of each item; its error is record_not_found, or request_invalid if the key belongs to another donation
 * @throws BatchRejectedError
 */
export const refundDonations = async (
  {
    writeDonationRefunds = (_, writeTogether) => writeTogether(),
    ...context
  }: Context & Partial<OperatorContext & DonationRefundWriter>,
  {
    accountId,
    mode,
    accountType = "organization",
  }: Pick<Entry, "accountId" | "mode" | "accountType">,
  items: readonly Outcome<DonationRefundRequest>[],
  isAtomic: boolean,
): Promise<readonly Outcome<RefundedDonation>[]> => {
  if (isAtomic) {
    requireAll(items);
  }
  const owner = { accountId, mode, accountType };
  const entries = items.filter(isAccepted).map((request) => Object.assign({}, request, owner));
  const options = { isAtomic, withMetadata: entries.length <= MAXIMUM_WITH_METADATA };
  const written = await writeDonationRefunds(entries, () => write(context, entries, options));
  const outcomes = completeOutcomes<DonationRefundRequest, RefundedDonation>(items, written);
  if (isAtomic) {
    requireAll(outcomes);
  }
  return outcomes;
};

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
