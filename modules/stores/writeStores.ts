import type { DatabaseTransactionConnection } from "slonik";
import { accountModeKey } from "../records/owner.rules.ts";
import { lockLimits } from "../registrations/checkLimits.ts";
import { LOCKED } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { outcomeOf } from "../records/batches.rules.ts";
import { lockBalance, reportDecisions } from "./lockBalance.ts";
import { refundFromStores } from "./refundFromStores.ts";
import type { StoreResult } from "./refundFromStores.ts";
import { limitLockWait, lockBalances } from "./stores.sql.ts";
import type { Store } from "./stores.sql.ts";
import { selectReady } from "./storeRefunds.rules.ts";
import { listIdempotentResponses, recordStoreWrites } from "./storeWrites.sql.ts";
import { balanceOf, decideStoreWrite, isRefund, responseKey } from "./storeWrites.rules.ts";
import type { AnyStoreWrite, StoreLedger } from "./storeWrites.rules.ts";

/** After it another store is written. PostgreSQL grants locks in the order in which they are requested. */
const LOCK_WAIT_MS = 250;

/**
 * Locks the balance of a store that is written alone.
 * @throws DomainError record_not_found, or an error for which `isLockTimeout` is true if another transaction has it for long
 */
const awaitBalance = async (
  transaction: DatabaseTransactionConnection,
  accountId: string,
): Promise<Store> => {
  await limitLockWait(transaction, LOCK_WAIT_MS);
  const balance = await lockBalance(transaction, accountId);
  await limitLockWait(transaction, 0);
  return balance;
};

/** Records what was accepted, with what it leaves of each balance. */
const recordAccepted = async (
  transaction: DatabaseTransactionConnection,
  ledger: StoreLedger,
): Promise<void> => {
  const accepted = ledger.accepted.splice(0);
  const balances = new Map(
    accepted.map(({ write }) => [
      write.accountId,
      { ...balanceOf(ledger, write), id: write.accountId },
    ]),
  );
  await recordStoreWrites(transaction, { accepted, balances: [...balances.values()] });
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
    const responses = await listIdempotentResponses(transaction, ready);
    const ledger: StoreLedger = {
      balances: new Map(balances.map((balance) => [balance.id, balance])),
      responses: new Map(responses.map((response) => [responseKey(response), response])),
      limits: new Map(),
      refusals: new Map(),
      accepted: [],
    };
    const free = ready.filter(({ accountId }) => ledger.balances.has(accountId));
    const registrations = free.filter((write) => "count" in write);
    const { limits, countRegistered } = await lockLimits(transaction, registrations, now);
    for (const limit of limits) {
      ledger.limits.set(accountModeKey(limit), limit);
    }
    const results = new Map<AnyStoreWrite, StoreResult>();
    for (const write of free) {
      if (!isRefund(write)) {
        results.set(
          write,
          outcomeOf(() => decideStoreWrite(write, ledger, now)),
        );
      }
    }
    await countRegistered(
      ledger.accepted.flatMap(({ write }) => ("count" in write ? [write] : [])),
    );
    await recordAccepted(transaction, ledger);
    const refunds = await refundFromStores(
      { db: transaction, clock },
      free.filter(isRefund),
      ledger,
      { skipsLocked: !isAlone },
    );
    await recordAccepted(transaction, ledger);
    await reportDecisions(transaction, balances, ledger, now);
    return writes.map((write) => results.get(write) ?? refunds.get(write) ?? LOCKED);
  });
