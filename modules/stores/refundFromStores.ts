import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../accounts/context.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";
import { donationRefunded } from "../charities/presentDonation.rules.ts";
import { createEvent } from "../events/recordEvent.ts";
import { asRejection, resultOfOne } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { fromMicroseconds, toMicroseconds } from "../records/timestamps.rules.ts";
import { writeRefunds } from "../registrations/writeRefunds.ts";
import type {
  RefundedItem,
  RefundEntry,
  RefundOutcome,
  RefundRequest,
} from "../registrations/writeRefunds.ts";
import { LOCKED } from "../../db/batching/groupCommit.ts";
import type { Context, InTransaction } from "../../runtime/context.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import { lockBalance } from "./lockBalance.ts";
import { lockNewestDonations } from "./storeDonations.sql.ts";
import { listNewestUnits } from "./storeRegistrations.sql.ts";
import {
  MAXIMUM_DONATIONS,
  MAXIMUM_RECORDS,
  selectUnits,
  tooFewLeft,
} from "./storeRefunds.rules.ts";
import { findBalanceExcess } from "./stores.rules.ts";
import { recordStoreWrites } from "./storeWrites.sql.ts";
import type { NewBalanceEntry } from "./storeWrites.sql.ts";
import {
  balanceOf,
  endOfWrites,
  enterRefund,
  findReplay,
  isNew,
  nextRecordUs,
  responseTo,
} from "./storeWrites.rules.ts";
import type {
  StoreBalance,
  StoreLedger,
  StoreRefundWrite,
  StoreResponse,
} from "./storeWrites.rules.ts";

/** The result of a write: LOCKED if its store must be written alone. */
export type StoreResult = Outcome<StoreResponse> | typeof LOCKED;

/** A refund that is decided. Its donations are already marked; its units are not refunded yet. */
type Decided = {
  readonly write: StoreRefundWrite;
  readonly entries: readonly RefundEntry[];
  readonly quantity: number;
  readonly amountCents: number;
  /** When it is recorded, in microseconds. No other record or refund of the store has this time. */
  readonly createdAt: string;
};

const nextTime = (balance: StoreBalance, now: Date): string =>
  fromMicroseconds(nextRecordUs(balance, now));

const requirePossibleBalance = (
  { balanceCents }: { readonly balanceCents: number },
  amountCents: number,
): void => {
  const excess = findBalanceExcess(balanceCents, amountCents);
  if (excess) {
    throw excess;
  }
};

/**
 * Selects the newest units of a store's registrations.
 * @throws DomainError request_invalid if fewer match, or the balance would be beyond the safe integers
 */
const decideUnits = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  kind: Kind,
  ledger: StoreLedger,
  now: Date,
): Promise<Decided> => {
  const { accountId, mode, quantity, filter, reason } = write;
  const owner = { accountId, mode, kind };
  const limit = Math.min(quantity, MAXIMUM_RECORDS);
  const units = selectUnits(await listNewestUnits(transaction, owner, filter, limit), quantity);
  const balance = balanceOf(ledger, write);
  const amountCents = units.reduce(
    (sum, { count, unitPriceCents }) => sum + count * unitPriceCents,
    0,
  );
  requirePossibleBalance(balance, amountCents);
  const createdAt = nextTime(balance, now);
  const common = { ...owner, reason, idempotencyKey: null, window: null, refundedAt: createdAt };
  const entries = units.map(({ id, count }) => Object.assign({ id, count }, common));
  return { write, entries, quantity, amountCents, createdAt };
};

/**
 * Marks donations as refunded, newest first. The balance stays, since the charity has the money.
 * @throws DomainError request_invalid if fewer match
 */
const refundNewestDonations = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  ledger: StoreLedger,
  now: Date,
): Promise<Decided> => {
  const { accountId, mode, quantity, filter, reason } = write;
  if (quantity > MAXIMUM_DONATIONS) {
    throw invalidRequest(
      `quantity: at most ${MAXIMUM_DONATIONS} donations can be reversed in one call`,
    );
  }
  const found = await lockNewestDonations(transaction, { accountId, mode }, filter, quantity);
  if (found.length < quantity) {
    throw tooFewLeft(found.length, "donation");
  }
  const request = { reason, idempotencyKey: null, metadata: {} };
  const refunds = found.map((donation) => ({ donation, request }));
  // Without the reason, which may name a customer: webhooks leave it out, and stores have no feed.
  const events = found.map((donation) =>
    createEvent({ accountId, mode }, donationRefunded(donation, null)),
  );
  await insertDonationRefunds(transaction, refunds, now, events);
  const createdAt = nextTime(balanceOf(ledger, write), now);
  return { write, entries: [], quantity, amountCents: 0, createdAt };
};

const decide = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  ledger: StoreLedger,
  now: Date,
): Promise<Outcome<Decided | StoreResponse>> => {
  try {
    const replay = findReplay(write, ledger);
    if (replay) {
      return replay;
    }
    const { refunded } = write;
    return refunded === "donation"
      ? await refundNewestDonations(transaction, write, ledger, now)
      : await decideUnits(transaction, write, refunded, ledger, now);
  } catch (error) {
    return asRejection(error);
  }
};

const entryOf = (
  accountId: string,
  { quantity, amountCents, createdAt }: Pick<Decided, "quantity" | "amountCents" | "createdAt">,
  balanceCents: number,
): NewBalanceEntry => ({
  accountId,
  kind: "refund",
  quantity,
  amountCents,
  balanceCents,
  note: "",
  createdAt,
});

const requireDecided = (outcome: RefundOutcome | undefined): RefundedItem => {
  if (typeof outcome === "symbol") {
    throw new TypeError("The refund of a store's registration was not decided.");
  }
  return resultOfOne(outcome === undefined ? [] : [outcome]);
};

/**
 * Refunds the newest units or donations of stores that filters select, whose balances are locked, and enters each refund
 * into the ledger.
 * @param writes at most one of each store
 * @param options.skipsLocked whether a refund does not wait for registrations that another transaction has locked
 * @returns the result of each write: LOCKED if it did not wait
 */
export const refundFromStores = async (
  { db, clock }: InTransaction<Context> & { readonly db: DatabaseTransactionConnection },
  writes: readonly StoreRefundWrite[],
  ledger: StoreLedger,
  options: { readonly skipsLocked: boolean },
): Promise<ReadonlyMap<StoreRefundWrite, StoreResult>> => {
  const now = clock.now();
  const results = new Map<StoreRefundWrite, StoreResult>();
  const decided: Decided[] = [];
  for (const write of writes) {
    const outcome = await decide(db, write, ledger, now);
    if (isNew(outcome)) {
      decided.push(outcome);
    } else {
      results.set(write, outcome);
    }
  }
  const entries = decided.flatMap((each) => each.entries);
  const outcomes = entries.length === 0 ? [] : await writeRefunds({ db, clock }, entries, options);
  const outcomeOf = new Map<RefundEntry, RefundOutcome | undefined>(
    entries.map((entry, index) => [entry, outcomes[index]]),
  );
  const made: Decided[] = [];
  const paidBack: NewBalanceEntry[] = [];
  for (const each of decided) {
    const { write } = each;
    const own = each.entries.map((entry) => outcomeOf.get(entry));
    if (own.includes(LOCKED)) {
      results.set(write, LOCKED);
    } else {
      own.forEach(requireDecided);
      const { balanceCents } = enterRefund(write, ledger, each);
      made.push(each);
      paidBack.push(entryOf(write.accountId, each, balanceCents));
      results.set(write, responseTo(write));
    }
  }
  await recordStoreWrites(db, {
    entries: paidBack.filter(({ amountCents }) => amountCents !== 0),
    ...endOfWrites(made, ledger),
  });
  return results;
};

/**
 * Refunds units of a store's registration for an operator.
 * @throws DomainError record_not_found, usage_not_on_file for an imported one, or request_invalid
 */
export const refundStoreRegistration = (
  { db, clock, actor }: OperatorContext,
  { accountId, mode, kind }: Owner,
  request: RefundRequest,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<RefundedItem> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, accountId);
    const createdAt = nextTime(balance, clock.now());
    const entry = { ...request, accountId, mode, kind, window: null, refundedAt: createdAt };
    const context = { db: transaction, clock, actor };
    const [outcome] = await writeRefunds(context, [entry], { isDryRun });
    const item = requireDecided(outcome);
    if (!item.replayed) {
      const { refundedCount: quantity, registration } = item;
      const amountCents = quantity * (registration.unitPriceCents ?? 0);
      requirePossibleBalance(balance, amountCents);
      const balanceCents = balance.balanceCents + amountCents;
      const refund = { quantity, amountCents, createdAt };
      await recordStoreWrites(
        transaction,
        isDryRun
          ? {}
          : {
              entries: amountCents === 0 ? [] : [entryOf(accountId, refund, balanceCents)],
              balances: [{ accountId, balanceCents, lastRecordUs: toMicroseconds(createdAt) }],
            },
      );
    }
    return item;
  });
