import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../accounts/context.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";
import { donationRefunded } from "../charities/donations.rules.ts";
import { createEvent } from "../events/recordEvent.ts";
import { asRejection, outcomeOf, resultOfOne } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import type { Kind, Owner } from "../records/owner.rules.ts";
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
import { changeLockedBalance, lockBalance } from "./changeBalance.ts";
import { listNewestUnits, lockNewestDonations } from "./storeRecords.sql.ts";
import { MAXIMUM_DONATIONS, selectUnits, tooFewLeft } from "./storeRefunds.rules.ts";
import { addToBalance } from "./stores.rules.ts";
import { accept, balanceOf, findReplay, nextTime } from "./storeWrites.rules.ts";
import type {
  AnyStoreWrite,
  StoreBalance,
  StoreLedger,
  StoreRefundWrite,
  StoreResponse,
} from "./storeWrites.rules.ts";

/** The result of a write: LOCKED if its store must be written alone. */
export type StoreResult = Outcome<StoreResponse> | typeof LOCKED;

/** The units that a refund takes back, and what it pays back. None of donations, which are marked already. */
type Selected = { readonly entries: readonly RefundEntry[]; readonly amountCents: number };

/**
 * @param records the newest that match
 * @throws DomainError request_invalid if fewer units match, or the balance would be beyond the safe integers
 */
const selectNewestUnits = (
  records: Parameters<typeof selectUnits>[0],
  { accountId, mode, quantity, reason }: StoreRefundWrite,
  kind: Kind,
  balance: StoreBalance,
  refundedAt: string,
): Selected => {
  const units = selectUnits(records, quantity);
  const amountCents = units.reduce(
    (sum, { count, unitPriceCents }) => sum + count * unitPriceCents,
    0,
  );
  addToBalance(balance, amountCents);
  const common = {
    accountId,
    mode,
    kind,
    reason,
    idempotencyKey: null,
    window: null,
    refundedAt,
  };
  const entries = units.map(({ id, count }) => Object.assign({ id, count }, common));
  return { entries, amountCents };
};

/**
 * Marks donations as refunded, newest first. The balance stays, since the charity has the money.
 * @throws DomainError request_invalid if fewer match
 */
const refundNewestDonations = async (
  transaction: DatabaseTransactionConnection,
  write: StoreRefundWrite,
  refundedAt: string,
): Promise<Selected> => {
  const { accountId, mode, quantity, reason } = write;
  if (quantity > MAXIMUM_DONATIONS) {
    throw invalidRequest(
      `quantity: at most ${MAXIMUM_DONATIONS} donations can be reversed in one call`,
    );
  }
  const found = await lockNewestDonations(transaction, write);
  if (found.length < quantity) {
    throw tooFewLeft(found.length, "donation");
  }
  const request = { reason, idempotencyKey: null, metadata: {} };
  const refunds = found.map((donation) => ({ donation, request }));
  // Without the reason, which may name a customer: webhooks leave it out, and stores have no feed.
  const events = found.map((donation) =>
    createEvent({ accountId, mode }, donationRefunded(donation, null)),
  );
  await insertDonationRefunds(transaction, refunds, refundedAt, events);
  return { entries: [], amountCents: 0 };
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
 * @returns the result of each write: LOCKED if it did not wait
 */
export const refundFromStores = async (
  { db, clock }: InTransaction<Context> & { readonly db: DatabaseTransactionConnection },
  writes: readonly StoreRefundWrite[],
  ledger: StoreLedger,
  options: { readonly skipsLocked: boolean },
): Promise<ReadonlyMap<AnyStoreWrite, StoreResult>> => {
  const now = clock.now();
  const results = new Map<AnyStoreWrite, StoreResult>();
  const selected = new Map<StoreRefundWrite, Selected>();
  const unanswered: StoreRefundWrite[] = [];
  for (const write of writes) {
    const replay = outcomeOf(() => findReplay(write, ledger));
    if (replay) {
      results.set(write, replay);
    } else {
      unanswered.push(write);
    }
  }
  const units = await listNewestUnits(
    db,
    unanswered.filter(({ refunded }) => refunded !== "donation"),
  );
  for (const write of unanswered) {
    const balance = balanceOf(ledger, write);
    const refundedAt = nextTime(balance, now);
    try {
      const selection =
        write.refunded === "donation"
          ? await refundNewestDonations(db, write, refundedAt)
          : selectNewestUnits(units.get(write) ?? [], write, write.refunded, balance, refundedAt);
      selected.set(write, selection);
    } catch (error) {
      results.set(write, asRejection(error));
    }
  }
  const entries = [...selected.values()].flatMap((selection) => selection.entries);
  const outcomes = entries.length === 0 ? [] : await writeRefunds({ db, clock }, entries, options);
  const locked = new Set<string>();
  for (const [index, { accountId }] of entries.entries()) {
    if (outcomes[index] === LOCKED) {
      locked.add(accountId);
    } else {
      requireMade(outcomes[index]);
    }
  }
  for (const [write, { amountCents }] of selected) {
    const result = locked.has(write.accountId)
      ? LOCKED
      : accept(ledger, { write, amountCents, unitPriceCents: 0 }, now);
    results.set(write, result);
  }
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
    const item = requireMade(outcome);
    const { refundedCount: quantity, registration, replayed } = item;
    if (!replayed && !isDryRun) {
      const amountCents = quantity * (registration.unitPriceCents ?? 0);
      const paidBack = { kind: "refund", quantity, amountCents, note: "", createdAt } as const;
      await changeLockedBalance(transaction, balance, paidBack, clock.now());
    }
    return item;
  });
