import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../accounts/context.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";
import { donationRefunded } from "../charities/presentDonation.rules.ts";
import { createEvent } from "../events/recordEvent.ts";
import type { Owner } from "../records/owner.rules.ts";
import { fromMicroseconds, toMicroseconds } from "../records/timestamps.rules.ts";
import { resultOfOne } from "../records/batches.rules.ts";
import { writeRefunds } from "../registrations/writeRefunds.ts";
import type { RefundedItem, RefundRequest } from "../registrations/writeRefunds.ts";
import type { Context, InTransaction } from "../../runtime/context.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { findEarlierResponse } from "./findEarlierResponse.ts";
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
import type { NewResponse } from "./storeWrites.sql.ts";
import { nextRecordUs } from "./storeWrites.rules.ts";
import type { StoreRefundWrite, StoreResponse } from "./storeWrites.rules.ts";
import { awaitBalance } from "./writeStores.ts";

type RefundContext = InTransaction<Context & Partial<OperatorContext>>;

/**
 * Refunds units of a store's registrations, and adds what was paid for them to the store's balance, which is locked.
 * @param requests of units that remain, or repeated ones of an operator
 * @throws DomainError usage_not_on_file for an imported registration, or request_invalid if fewer units remain or the balance
 *   would be beyond the safe integers
 */
const refundUnits = async (
  { db, ...context }: RefundContext & { readonly db: DatabaseTransactionConnection },
  balance: LockedBalance,
  { accountId, mode, kind }: Owner,
  requests: readonly RefundRequest[],
  {
    createdAt,
    responses = [],
    isDryRun = false,
  }: {
    readonly createdAt: string;
    readonly responses?: readonly NewResponse[];
    readonly isDryRun?: boolean;
  },
): Promise<readonly RefundedItem[]> => {
  const entries = requests.map((request) =>
    Object.assign({ window: null }, request, { accountId, mode, kind }),
  );
  const outcomes = await writeRefunds({ ...context, db }, entries, {
    isDryRun,
    refundedAt: createdAt,
  });
  const items = outcomes.map((outcome) => {
    if (typeof outcome === "symbol") {
      throw new TypeError("The refund of a store's registration was not decided.");
    }
    return resultOfOne([outcome]);
  });
  const made = items.filter(({ replayed }) => !replayed);
  const amountCents = made.reduce(
    (sum, { registration, refundedCount }) =>
      sum + refundedCount * (registration.unitPriceCents ?? 0),
    0,
  );
  const excess = findBalanceExcess(balance.balanceCents, amountCents);
  if (excess) {
    throw excess;
  }
  if (made.length > 0 && !isDryRun) {
    const balanceCents = balance.balanceCents + amountCents;
    const quantity = made.reduce((sum, { refundedCount }) => sum + refundedCount, 0);
    const entry = { accountId, kind: "refund", amountCents, balanceCents, quantity } as const;
    await recordStoreWrites(db, {
      entries: amountCents === 0 ? [] : [{ ...entry, note: "", createdAt }],
      responses,
      balances: [{ accountId, balanceCents, lastRecordUs: toMicroseconds(createdAt) }],
    });
  }
  return items;
};

const nextTime = (balance: LockedBalance, now: Date): string =>
  fromMicroseconds(nextRecordUs(balance, now));

/** Marks donations as refunded, newest first. The balance stays, since the charity has the money. */
const refundNewestDonations = async (
  transaction: DatabaseTransactionConnection,
  { accountId, mode, quantity, filter, reason }: StoreRefundWrite,
  now: Date,
): Promise<void> => {
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
};

/**
 * Refunds the newest units or donations of a store that a filter selects.
 * @throws DomainError request_invalid if fewer match, the balance would be beyond the safe integers, or the idempotency key
 *   was used for another request
 */
export const refundFromStore = (
  { db, clock }: Context,
  write: StoreRefundWrite,
): Promise<StoreResponse> =>
  db.transaction(async (transaction) => {
    const { accountId, mode, refunded, quantity, filter, reason, idempotency, responseBody } =
      write;
    const balance = await awaitBalance(transaction, accountId);
    const earlier = await findEarlierResponse(transaction, write);
    if (earlier) {
      return earlier;
    }
    const now = clock.now();
    const createdAt = refunded === "donation" ? now.toISOString() : nextTime(balance, now);
    const responses = idempotency ? [{ ...write, ...idempotency, recordId: null, createdAt }] : [];
    if (refunded === "donation") {
      await refundNewestDonations(transaction, write, now);
      await recordStoreWrites(transaction, { responses });
    } else {
      const owner = { accountId, mode, kind: refunded };
      const limit = Math.min(quantity, MAXIMUM_RECORDS);
      const newest = await listNewestUnits(transaction, owner, filter, limit);
      const requests = selectUnits(newest, quantity).map((units) =>
        Object.assign({ reason, idempotencyKey: null }, units),
      );
      const context = { db: transaction, clock };
      await refundUnits(context, balance, owner, requests, { createdAt, responses });
    }
    return { responseBody, recordId: null, replayed: false };
  });

/**
 * Refunds units of a store's registration for an operator.
 * @throws DomainError record_not_found, usage_not_on_file or request_invalid
 */
export const refundStoreRegistration = (
  { db, clock, actor }: OperatorContext,
  owner: Owner,
  request: RefundRequest,
  { isDryRun }: { readonly isDryRun: boolean },
): Promise<RefundedItem> =>
  db.transaction(async (transaction) => {
    const balance = await lockBalance(transaction, owner.accountId);
    const createdAt = nextTime(balance, clock.now());
    const context = { db: transaction, clock, actor };
    return resultOfOne(
      await refundUnits(context, balance, owner, [request], { createdAt, isDryRun }),
    );
  });
