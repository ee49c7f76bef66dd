import type { DatabaseTransactionConnection } from "slonik";
import { accountModeKey } from "../records/owner.rules.ts";
import { lockLimits } from "../registrations/checkLimits.ts";
import { LOCKED } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { limitLockWait, lockBalances } from "./balances.sql.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { lockBalance, reportDecisions } from "./lockBalance.ts";
import { refundFromStores } from "./refundFromStores.ts";
import type { StoreResult } from "./refundFromStores.ts";
import { divideIntoRounds, selectReady } from "./storeRefunds.rules.ts";
import { recordStoreWrites } from "./storeWrites.sql.ts";
import type { NewBalanceEntry } from "./storeWrites.sql.ts";
import {
  decideStoreWrite,
  endOfWrites,
  isNew,
  isPaid,
  isRefund,
  responseKey,
  responseTo,
} from "./storeWrites.rules.ts";
import type {
  AcceptedWrite,
  AnyStoreWrite,
  PaidWrite,
  StoreDonationWrite,
  StoreLedger,
  StoreRegistrationWrite,
} from "./storeWrites.rules.ts";

/** After it another store is written. PostgreSQL grants locks in the order in which they are requested. */
const LOCK_WAIT_MS = 250;

/**
 * Locks the balance of a store that is written alone.
 * @throws DomainError record_not_found, or an error for which `isLockTimeout` is true if another transaction has it for long
 */
const awaitBalance = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
): Promise<LockedBalance> => {
  const [free] = await lockBalances(transaction, [accountId], { skipsLocked: true });
  if (free) {
    return free;
  }
  await limitLockWait(transaction, LOCK_WAIT_MS);
  const balance = await lockBalance(transaction, accountId);
  await limitLockWait(transaction, 0);
  return balance;
};

const isRegistration = (
  accepted: AcceptedWrite,
): accepted is AcceptedWrite<StoreRegistrationWrite> => accepted.write.kind !== "donation";

const isDonation = (accepted: AcceptedWrite): accepted is AcceptedWrite<StoreDonationWrite> =>
  accepted.write.kind === "donation";

const toEntry = ({ write, costCents, balanceCents, createdAt }: AcceptedWrite): NewBalanceEntry => {
  const { accountId, kind, recordId } = write;
  const entry = { accountId, kind, amountCents: -costCents, balanceCents, createdAt };
  return write.kind === "donation"
    ? { ...entry, donationId: recordId, note: write.charity.charity.name }
    : { ...entry, quantity: write.count, registrationId: recordId, note: "" };
};

const recordAll = async (
  transaction: DatabaseTransactionConnection,
  accepted: readonly AcceptedWrite[],
  ledger: StoreLedger,
): Promise<void> => {
  await recordStoreWrites(transaction, {
    registrations: accepted
      .filter(isRegistration)
      .map(({ write, unitPriceCents, createdAt }) =>
        Object.assign({ id: write.recordId, unitPriceCents, createdAt }, write),
      ),
    donations: accepted
      .filter(isDonation)
      .map(({ write, createdAt }) =>
        Object.assign({ id: write.recordId, createdAt }, write, write.customer),
      ),
    entries: accepted.filter(({ costCents }) => costCents !== 0).map(toEntry),
    ...endOfWrites(accepted, ledger),
  });
};

const keysOf = (writes: readonly AnyStoreWrite[]) =>
  writes.flatMap(({ accountId, mode, operation, idempotency }) =>
    idempotency === null ? [] : [{ accountId, mode, operation, key: idempotency.key }],
  );

/** Decides and records what stores pay for. */
const pay = async (
  transaction: DatabaseTransactionConnection,
  writes: readonly PaidWrite[],
  ledger: StoreLedger,
  now: Date,
): Promise<readonly (readonly [PaidWrite, StoreResult])[]> => {
  const registrations = writes.filter((write) => "count" in write);
  const { limits, countRegistered } = await lockLimits(transaction, registrations, now);
  for (const limit of limits) {
    ledger.limits.set(accountModeKey(limit), limit);
  }
  const decided = writes.map((write) => [write, decideStoreWrite(write, ledger, now)] as const);
  const accepted = decided.map(([, outcome]) => outcome).filter(isNew);
  await recordAll(transaction, accepted, ledger);
  await countRegistered(accepted.filter(isRegistration).map(({ write }) => write));
  return decided.map(([write, outcome]) => [write, isNew(outcome) ? responseTo(write) : outcome]);
};

/**
 * Decides and records writes of stores in one transaction, under the locks of their balances. Those of one store are
 * written in their order.
 * @param options.isAlone whether all writes are of one store, and may take long or wait for locks of other transactions
 * @returns the response to each write, why it is rejected, or LOCKED: then its store must be written alone
 */
export const writeStores = (
  { db, clock }: Context,
  writes: readonly AnyStoreWrite[],
  { isAlone }: { readonly isAlone: boolean },
): Promise<readonly StoreResult[]> =>
  db.transaction(async (transaction) => {
    const accountIds = [...new Set(writes.map(({ accountId }) => accountId))];
    const options = { skipsLocked: true, keys: keysOf(writes) };
    let balances = await lockBalances(transaction, accountIds, options);
    const [onlyId] = accountIds;
    if (isAlone && balances.length === 0 && onlyId !== undefined) {
      await awaitBalance(transaction, onlyId);
      balances = await lockBalances(transaction, accountIds, options);
    }
    const now = clock.now();
    const ledger: StoreLedger = {
      balances: new Map(balances.map((balance) => [balance.accountId, balance])),
      responses: new Map(
        balances.flatMap(({ responses }) => responses.map((each) => [responseKey(each), each])),
      ),
      limits: new Map(),
      refusals: [],
    };
    const results = new Map<AnyStoreWrite, StoreResult>();
    const locked = new Set(accountIds.filter((id) => !ledger.balances.has(id)));
    const context = { db: transaction, clock };
    for (const round of divideIntoRounds(selectReady(writes, { isAlone }))) {
      const ready = round.filter(({ accountId }) => !locked.has(accountId));
      const paid = await pay(transaction, ready.filter(isPaid), ledger, now);
      const refunds = ready.filter(isRefund);
      const refunded = await refundFromStores(context, refunds, ledger, { skipsLocked: !isAlone });
      for (const [write, result] of [...paid, ...refunded]) {
        results.set(write, result);
        if (result === LOCKED) {
          locked.add(write.accountId);
        }
      }
    }
    await reportDecisions(transaction, balances, ledger, now);
    return writes.map((write) => results.get(write) ?? LOCKED);
  });
