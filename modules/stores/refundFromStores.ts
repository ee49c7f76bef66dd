import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../accounts/context.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";
import { donationRefunded } from "../charities/presentDonation.rules.ts";
import { createEvent } from "../events/recordEvent.ts";
import { asRejection, resultOfOne } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
import { toMicroseconds } from "../records/timestamps.rules.ts";
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
import { addToBalance } from "./stores.rules.ts";
import { recordStoreWrites } from "./storeWrites.sql.ts";
import { accept, balanceOf, findReplay, isNew, nextTime } from "./storeWrites.rules.ts";
import type {
  Decision,
  StoreLedger,
  StoreRefundWrite,
  StoreResponse,
} from "./storeWrites.rules.ts";

/** The units that a refund takes back, and what it pays back. None of donations, which are marked already. */
type Selected = {
  readonly write: StoreRefundWrite;
  readonly entries: readonly RefundEntry[];
  readonly amountCents: number;
};

/**
 * Selects the newest units of a store's registrations.
 * @throws DomainError request_invalid if fewer match, or the balance would be beyond the safe integers
 */
const selectNewestUnits = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  kind: Kind,
  ledger: StoreLedger,
  now: Date,
): Promise<Selected> => {
  const { accountId, mode, quantity, filter, reason } = write;
  const owner = { accountId, mode, kind };
  const limit = Math.min(quantity, MAXIMUM_RECORDS);
  const units = selectUnits(await listNewestUnits(transaction, owner, filter, limit), quantity);
  const amountCents = units.reduce(
    (sum, { count, unitPriceCents }) => sum + count * unitPriceCents,
    0,
  );
  const balance = balanceOf(ledger, write);
  addToBalance(balance, amountCents);
  const refundedAt = nextTime(balance, now);
  const common = { ...owner, reason, idempotencyKey: null, window: null, refundedAt };
  const entries = units.map(({ id, count }) => Object.assign({ id, count }, common));
  return { write, entries, amountCents };
};

/**
 * Marks donations as refunded, newest first. The balance stays, since the charity has the money.
 * @throws DomainError request_invalid if fewer match
 */
const refundNewestDonations = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  now: Date,
): Promise<Selected> => {
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
  return { write, entries: [], amountCents: 0 };
};

const select = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  ledger: StoreLedger,
  now: Date,
): Promise<Outcome<Selected | StoreResponse>> => {
  try {
    const replay = findReplay(write, ledger);
    if (replay) {
      return replay;
    }
    return write.refunded === "donation"
      ? await refundNewestDonations(transaction, write, now)
      : await selectNewestUnits(transaction, write, write.refunded, ledger, now);
  } catch (error) {
    return asRejection(error);
  }
};

const requireMade = (outcome: RefundOutcome | undefined): RefundedItem => {
  if (typeof outcome === "symbol") {
    throw new TypeError("The refund of a store's registration was not decided.");
  }
  return resultOfOne(outcome === undefined ? [] : [outcome]);
};

/**
 * Refunds the newest units or donations of stores that filters select, whose balances are locked.
 * @param writes at most one of each store
 * @param options.skipsLocked whether a refund does not wait for registrations that another transaction has locked
 * @returns the decision about each write: LOCKED if it did not wait
 */
export const refundFromStores = async (
  { db, clock }: InTransaction<Context> & { readonly db: DatabaseTransactionConnection },
  writes: readonly StoreRefundWrite[],
  ledger: StoreLedger,
  options: { readonly skipsLocked: boolean },
): Promise<
  readonly (readonly [StoreRefundWrite, Decision<StoreRefundWrite> | typeof LOCKED])[]
> => {
  const now = clock.now();
  const selections: (readonly [StoreRefundWrite, Outcome<Selected | StoreResponse>])[] = [];
  for (const write of writes) {
    selections.push([write, await select(db, write, ledger, now)]);
  }
  const entries = selections.flatMap(([, selected]) => (isNew(selected) ? selected.entries : []));
  const outcomes = entries.length === 0 ? [] : await writeRefunds({ db, clock }, entries, options);
  const locked = new Set<string>();
  for (const [index, { accountId }] of entries.entries()) {
    if (outcomes[index] === LOCKED) {
      locked.add(accountId);
    } else {
      requireMade(outcomes[index]);
    }
  }
  return selections.map(([write, selected]) => {
    if (!isNew(selected)) {
      return [write, selected];
    }
    return [write, locked.has(write.accountId) ? LOCKED : accept(ledger, selected, now)];
  });
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
    const item = requireMade(outcome);
    const { refundedCount: quantity, registration, replayed } = item;
    if (!replayed) {
      const amountCents = quantity * (registration.unitPriceCents ?? 0);
      const balanceCents = addToBalance(balance, amountCents);
      const refund = { accountId, kind: "refund", quantity, amountCents, balanceCents } as const;
      const paidBack = { ...refund, note: "", createdAt };
      if (!isDryRun) {
        await recordStoreWrites(transaction, {
          entries: amountCents === 0 ? [] : [paidBack],
          balances: [{ accountId, balanceCents, lastRecordUs: toMicroseconds(createdAt) }],
        });
      }
    }
    return item;
  });
