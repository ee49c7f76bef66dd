import type { DatabaseTransactionConnection } from "slonik";
import { recordAction } from "../accounts/recordAction.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";
import { donationRefunded } from "../charities/presentDonation.rules.ts";
import { createEvent, recordEvents } from "../events/recordEvent.ts";
import { releaseRefundedTrees } from "../planting/releaseRefundedTrees.ts";
import { positionOf } from "../records/listPositions.sql.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { LOCKED } from "../../db/batching/createGroupCommit.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import { newId } from "../../runtime/newId.ts";
import { lockNewestDonations } from "./storeDonations.sql.ts";
import { lockReversible } from "./storeRegistrations.sql.ts";
import type { NewReversal, ReversibleRecord } from "./storeRegistrations.sql.ts";
import { findBalanceExcess } from "./stores.rules.ts";
import type { StoreReversalWrite } from "./storeWrites.rules.ts";

/** What limits the size of a transaction; larger reversals need several calls. */
export const MAXIMUM_RECORDS = 10_000;
export const MAXIMUM_DONATIONS = 1000;

/** How many records are searched for at once. */
const PAGE_RECORDS = 500;
/** Of a reversal that other writes can wait for. */
const SHORT_RECORDS = 50;

/** Returns whether a reversal can take long: because of its size, or because no index has the end of its search. */
export const isLongReversal = ({ quantity, filter }: StoreReversalWrite): boolean =>
  quantity > SHORT_RECORDS || filter.exactName !== undefined;

/** Returns the error for a reversal of more units or donations than remain. */
const tooFewLeft = (left: number, unit: "unit" | "donation"): DomainError =>
  invalidRequest(
    left === 0
      ? `quantity: no matching ${unit} remains to be reversed; a customer's name must match as a whole`
      : `quantity: only ${counted(left, `of the matching ${unit}s remains`, `of the matching ${unit}s remain`)} to be reversed`,
  );

type ReversedUnits = { readonly record: ReversibleRecord; readonly count: number };

/**
 * Locks the newest units and returns the records that they belong to.
 * @param isAlone whether it may wait for records that another transaction has locked
 */
const selectNewestUnits = async (
  transaction: DatabaseTransactionConnection,
  owner: Owner,
  { filter, quantity }: StoreReversalWrite,
  isAlone: boolean,
): Promise<readonly ReversedUnits[] | DomainError | typeof LOCKED> => {
  const selected: ReversedUnits[] = [];
  let missing = quantity;
  let after: ListPosition | null = null;
  while (missing > 0) {
    if (selected.length >= MAXIMUM_RECORDS) {
      return invalidRequest(
        `quantity: one call can reverse units of at most ${MAXIMUM_RECORDS} records; reverse at most ${quantity - missing} units in this call and the rest in others`,
      );
    }
    // Each record has a unit left at least. Others are not locked, since a planting order may hold them for a second.
    const limit = Math.min(PAGE_RECORDS, missing);
    const page: readonly ReversibleRecord[] = await lockReversible(transaction, owner, filter, {
      after,
      limit,
      isWaiting: isAlone,
    });
    for (const record of page) {
      if (record.remaining === null) {
        return LOCKED;
      }
      const count = Math.min(record.remaining, missing);
      if (count > 0) {
        selected.push({ record, count });
        missing -= count;
      }
    }
    after = positionOf(page.at(-1));
    if (missing > 0 && page.length < limit) {
      return tooFewLeft(quantity - missing, "unit");
    }
  }
  return selected;
};

/** What a reversal adds to the balance, and the reversed units of each record, which are recorded with other writes. */
type Reversed = { readonly amountCents: number; readonly reversals: readonly NewReversal[] };

/**
 * Selects the newest trees or bottles for a reversal, and takes them out of their planting orders.
 * @param isAlone whether it may wait for locks of other transactions
 */
const reverseUnits = async (
  transaction: DatabaseTransactionConnection,
  write: StoreReversalWrite & { readonly reversed: Kind },
  balanceCents: number,
  now: Date,
  isAlone: boolean,
): Promise<Reversed | DomainError | typeof LOCKED> => {
  const { accountId, mode, reversed: kind, quantity, filter, reason, actor } = write;
  const owner = { accountId, mode, kind };
  const units = await selectNewestUnits(transaction, owner, write, isAlone);
  if (units === LOCKED || units instanceof DomainError) {
    return units;
  }
  const ordered = units.filter(({ record }) => record.isOrdered);
  if (ordered.length > 0 && !isAlone) {
    // Another transaction may have locked the planting order.
    return LOCKED;
  }
  const amountCents = units.reduce(
    (sum, { record, count }) => sum + count * record.unitPriceCents,
    0,
  );
  const excess = findBalanceExcess(balanceCents, amountCents);
  if (excess) {
    return excess;
  }
  const reversals = units.map(({ record, count }) => ({
    accountId,
    mode,
    kind,
    reason,
    reversedAt: now,
    refundId: newId(),
    registrationId: record.id,
    registeredAt: record.createdAt,
    count,
  }));
  if (ordered.length > 0) {
    await releaseRefundedTrees(
      transaction,
      ordered.map(({ record, count }) => ({ registrationId: record.id, count })),
    );
  }
  await recordEvents(
    transaction,
    owner,
    now,
    units.map(({ record, count }) => ({
      type: "registration.refunded",
      data: {
        registration_id: record.id,
        kind,
        count,
        remaining_count: (record.remaining ?? count) - count,
        reason: reason ?? "",
      },
    })),
  );
  if (actor) {
    await recordAction(transaction, actor, now, {
      action: "refund.registration",
      accountId,
      subject: filter.registrationId ?? null,
      details: { count: quantity },
    });
  }
  return { amountCents, reversals };
};

/** Marks donations as refunded, newest first. The balance stays, since the charity has the money. */
const reverseDonations = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, quantity, filter, reason }: StoreReversalWrite,
  now: Date,
): Promise<Reversed | DomainError> => {
  if (quantity > MAXIMUM_DONATIONS) {
    return invalidRequest(
      `quantity: at most ${MAXIMUM_DONATIONS} donations can be reversed in one call`,
    );
  }
  const owner = { accountId, mode };
  const found = await lockNewestDonations(transaction, owner, filter, quantity);
  if (found.length < quantity) {
    return tooFewLeft(found.length, "donation");
  }
  const request = { reason, idempotencyKey: null, metadata: {} };
  await insertDonationRefunds(
    transaction,
    found.map((donation) => ({ donation, request })),
    now,
    found.map((donation) => createEvent(owner, donationRefunded(donation, reason))),
  );
  return { amountCents: 0, reversals: [] };
};

/**
 * Reverses what a write selects, under the lock of its store's balance.
 * @param context.isAlone whether no other store's write waits for it
 * @returns what is to be recorded; or why nothing was changed: a DomainError request_invalid if fewer units match or the
 *   balance would be beyond the safe integers, and LOCKED if the write must be alone
 */
export const reverseStoreRecords = async (
  transaction: DatabaseTransactionConnection,
  write: StoreReversalWrite,
  context: { readonly balanceCents: number; readonly now: Date; readonly isAlone: boolean },
): Promise<Reversed | DomainError | typeof LOCKED> => {
  const { balanceCents, now, isAlone } = context;
  const { reversed } = write;
  if (reversed === "donation") {
    return isAlone ? reverseDonations(transaction, write, now) : LOCKED;
  }
  return reverseUnits(transaction, { ...write, reversed }, balanceCents, now, isAlone);
};
