import type { DatabaseTransactionConnection } from "slonik";
import { accountModeKey } from "../records/owner.rules.ts";
import { lockLimits } from "../registrations/checkLimits.ts";
import { LOCKED } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { limitLockWait, lockBalances } from "./balances.sql.ts";
import type { LockedBalance } from "./balances.sql.ts";
import { listIdempotentResponses } from "./idempotentResponses.sql.ts";
import { lockBalance, reportDecisions } from "./lockBalance.ts";
import { refundFromStores } from "./refundFromStores.ts";
import { selectReady } from "./storeRefunds.rules.ts";
import { recordStoreWrites } from "./storeWrites.sql.ts";
import type { NewBalanceEntry } from "./storeWrites.sql.ts";
import {
  balanceOf,
  decideStoreWrite,
  isNew,
  isPaid,
  isRefund,
  responseKey,
  responseTo,
  unitPriceOf,
} from "./storeWrites.rules.ts";
import type {
  AcceptedWrite,
  AnyStoreWrite,
  Decision,
  PaidWrite,
  StoreLedger,
  StoreResponse,
} from "./storeWrites.rules.ts";

/** The result of a write: LOCKED if its store must be written alone. */
type StoreResult = Outcome<StoreResponse> | typeof LOCKED;

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
  await limitLockWait(transaction, LOCK_WAIT_MS);
  const balance = await lockBalance(transaction, accountId);
  await limitLockWait(transaction, 0);
  return balance;
};

const toEntry = ({
  write,
  amountCents,
  balanceCents,
  createdAt,
}: AcceptedWrite): NewBalanceEntry => {
  const entry = { accountId: write.accountId, amountCents, balanceCents, createdAt, note: "" };
  if (isRefund(write)) {
    return { ...entry, kind: "refund", quantity: write.quantity };
  }
  const { kind, recordId } = write;
  return kind === "donation"
    ? { ...entry, kind, donationId: recordId, note: write.charity.charity.name }
    : { ...entry, kind, quantity: write.count, registrationId: recordId };
};

/** Records accepted writes with their entries and responses, and what they leave of each balance. */
const recordAll = async (
  transaction: DatabaseTransactionConnection,
  accepted: readonly AcceptedWrite[],
  ledger: StoreLedger,
): Promise<void> => {
  const balances = new Map(
    accepted.map(({ write }) => [write.accountId, balanceOf(ledger, write)]),
  );
  await recordStoreWrites(transaction, {
    registrations: accepted.flatMap(({ write, createdAt }) => {
      if (!("count" in write)) {
        return [];
      }
      const unitPriceCents = unitPriceOf(write, balanceOf(ledger, write));
      return [{ ...write, id: write.recordId, unitPriceCents, createdAt }];
    }),
    donations: accepted.flatMap(({ write, createdAt }) =>
      "charity" in write ? [{ ...write, ...write.customer, id: write.recordId, createdAt }] : [],
    ),
    entries: accepted.filter(({ amountCents }) => amountCents !== 0).map(toEntry),
    responses: accepted.flatMap(({ write, createdAt }) =>
      write.idempotency === null ? [] : [{ ...write, ...write.idempotency, createdAt }],
    ),
    balances: Array.from(balances, ([accountId, balance]) => ({ ...balance, accountId })),
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
): Promise<readonly (readonly [PaidWrite, Decision])[]> => {
  const registrations = writes.filter((write) => "count" in write);
  const { limits, countRegistered } = await lockLimits(transaction, registrations, now);
  for (const limit of limits) {
    ledger.limits.set(accountModeKey(limit), limit);
  }
  const decided = writes.map((write) => [write, decideStoreWrite(write, ledger, now)] as const);
  const accepted = decided.map(([, decision]) => decision).filter(isNew);
  await recordAll(transaction, accepted, ledger);
  await countRegistered(accepted.flatMap(({ write }) => ("count" in write ? [write] : [])));
  return decided;
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
    const ready = selectReady(writes, { isAlone });
    const accountIds = [...new Set(ready.map(({ accountId }) => accountId))];
    let balances = await lockBalances(transaction, accountIds, { skipsLocked: true });
    const [onlyId] = accountIds;
    if (isAlone && balances.length === 0 && onlyId !== undefined) {
      balances = [await awaitBalance(transaction, onlyId)];
    }
    const now = clock.now();
    // Under the locks, earlier writes with these keys have committed.
    const responses = await listIdempotentResponses(transaction, keysOf(ready));
    const ledger: StoreLedger = {
      balances: new Map(balances.map((balance) => [balance.accountId, balance])),
      responses: new Map(responses.map((response) => [responseKey(response), response])),
      limits: new Map(),
      refusals: [],
    };
    const free = ready.filter(({ accountId }) => ledger.balances.has(accountId));
    const paid = await pay(transaction, free.filter(isPaid), ledger, now);
    const context = { db: transaction, clock };
    const refunds = free.filter(isRefund);
    const refunded = await refundFromStores(context, refunds, ledger, { skipsLocked: !isAlone });
    await recordAll(
      transaction,
      refunded.flatMap(([, made]) => (made !== LOCKED && isNew(made) ? [made] : [])),
      ledger,
    );
    await reportDecisions(transaction, balances, ledger, now);
    const results = new Map<AnyStoreWrite, Decision | typeof LOCKED>([...paid, ...refunded]);
    return writes.map((write) => {
      const result = results.get(write) ?? LOCKED;
      return result !== LOCKED && isNew(result) ? responseTo(write) : result;
    });
  });
