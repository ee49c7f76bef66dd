import type { DatabaseTransactionConnection } from "slonik";
import type { OperatorContext } from "../accounts/context.ts";
import { insertDonationRefunds } from "../charities/donationBatches.sql.ts";
import { donationRefunded } from "../charities/donations.rules.ts";
import { createEvent } from "../events/recordEvent.ts";
import { requireDecided, resultOfOne } from "../records/batches.rules.ts";
import type { Owner } from "../records/owner.rules.ts";
import { writeRefunds } from "../registrations/writeRefunds.ts";
import type { RefundedItem, RefundEntry, RefundRequest } from "../registrations/writeRefunds.ts";
import { LOCKED } from "../../db/batching/groupCommit.ts";
import type { Context, InTransaction } from "../../runtime/context.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { changeLockedBalance, lockBalance } from "./changeBalance.ts";
import { listNewestUnits, lockNewestDonations } from "./storeRecords.sql.ts";
import { MAXIMUM_DONATIONS } from "./storeRefunds.rules.ts";
import type { Units } from "./storeRefunds.rules.ts";
import { isRefund, nextTime } from "./storeWrites.rules.ts";
import type { AcceptedWrite, AnyStoreWrite, StoreRefundWrite } from "./storeWrites.rules.ts";

/** Returns what refunds of stores select, newest first, and the donations among it, which are locked. */
export const selectRefunded = async (
  transaction: DatabaseTransactionConnection,
  refunds: readonly StoreRefundWrite[],
) => {
  // One of more is refused.
  const ofDonations = refunds.filter(
    ({ refunded, quantity }) => refunded === "donation" && quantity <= MAXIMUM_DONATIONS,
  );
  const ofUnits = refunds.filter(({ refunded }) => refunded !== "donation");
  const donations = await lockNewestDonations(transaction, ofDonations);
  const selected = [...(await listNewestUnits(transaction, ofUnits)), ...donations];
  return { selected: new Map<AnyStoreWrite, readonly Units[]>(selected), donations };
};

/**
 * Records what accepted refunds of stores take back. The balance is not repaid for donations, since the charity has the money.
 * @param options.skipsLocked whether registrations that another transaction has locked are not waited for
 * @returns the stores that have such registrations: of these, nothing was recorded
 */
export const recordRefunded = async (
  { db, clock }: InTransaction<Context> & { readonly db: DatabaseTransactionConnection },
  accepted: readonly AcceptedWrite[],
  donations: Awaited<ReturnType<typeof selectRefunded>>["donations"],
  options: { readonly skipsLocked: boolean },
): Promise<ReadonlySet<string>> => {
  const entries: RefundEntry[] = [];
  for (const { write, units = [], createdAt } of accepted) {
    if (!isRefund(write)) {
      continue;
    }
    const { refunded, reason } = write;
    if (refunded === "donation") {
      const request = { reason, idempotencyKey: null, metadata: {} };
      const refunds = (donations.get(write) ?? []).map((donation) => ({ donation, request }));
      // Without the reason, which may name a customer: webhooks leave it out, and stores have no feed.
      const events = refunds.map(({ donation }) =>
        createEvent(write, donationRefunded(donation, null)),
      );
      await insertDonationRefunds(db, refunds, createdAt, events);
    } else {
      const { accountId, mode } = write;
      const refund = { reason, idempotencyKey: null, window: null, refundedAt: createdAt };
      for (const { id, count } of units) {
        entries.push({ ...refund, accountId, mode, kind: refunded, id, count });
      }
    }
  }
  const outcomes = entries.length === 0 ? [] : await writeRefunds({ db, clock }, entries, options);
  const rejection = outcomes.find((outcome) => outcome instanceof DomainError);
  if (rejection) {
    throw rejection;
  }
  return new Set(
    entries.flatMap(({ accountId }, index) => (outcomes[index] === LOCKED ? accountId : [])),
  );
};

/**
 * Refunds units of a store's registration for an operator.
 * @throws DomainError record_not_found, usage_not_on_file for an imported one, or request_invalid
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
    const entry = { ...owner, ...request, window: null, refundedAt: createdAt };
    const context = { db: transaction, clock, actor };
    const outcomes = await writeRefunds(context, [entry], { isDryRun });
    const item = resultOfOne(requireDecided<RefundedItem>(outcomes));
    const { refundedCount: quantity, registration, replayed } = item;
    if (!replayed && !isDryRun) {
      const amountCents = quantity * (registration.unitPriceCents ?? 0);
      const paidBack = { kind: "refund", quantity, amountCents, note: "", createdAt } as const;
      await changeLockedBalance(transaction, balance, paidBack, clock.now());
    }
    return item;
  });
