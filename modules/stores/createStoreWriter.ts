import { lockLimits } from "../registrations/checkLimits.ts";
import { outcomeOf, resultOfOne } from "../records/batches.rules.ts";
import type { Outcome } from "../records/batches.rules.ts";
import { accountModeKey } from "../records/owner.rules.ts";
import { GroupCommit, LOCKED } from "../../db/batching/groupCommit.ts";
import type { BatchObserver } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { reportDecisions } from "./changeBalance.ts";
import { getStore } from "./manageStores.ts";
import { recordRefunded, selectRefunded } from "./refundFromStores.ts";
import { findDisabled } from "./stores.rules.ts";
import { isLockTimeout, limitLockWait, lockBalances } from "./stores.sql.ts";
import type { Store } from "./stores.sql.ts";
import { decideStoreWrite, isRefund, keyOf, selectReady } from "./storeWrites.rules.ts";
import type {
  AnyStoreWrite,
  StoreBalance,
  StoreLedger,
  StoreResponse,
  StoreWrite,
} from "./storeWrites.rules.ts";
import { findEarlierResponse, readResponses, recordStoreWrites } from "./storeWrites.sql.ts";

export type StoreContext = Context & { readonly storeWriter: ReturnType<typeof createStoreWriter> };

/** After it another store is written, and this one again later. PostgreSQL grants locks in the order in which they are requested. */
const LOCK_WAIT_MS = 250;

/**
 * Decides and records writes of stores in one transaction, under the locks of their balances. Those of one store are
 * written in their order.
 * @param options.isAlone whether all writes are of one store, and may take long or wait for locks of other transactions
 * @returns the response to each write, why it is rejected, or LOCKED: then its store must be written alone
 */
const writeStores = (
  { db, clock }: Context,
  writes: readonly AnyStoreWrite[],
  { isAlone }: { readonly isAlone: boolean },
): Promise<readonly (Outcome<StoreResponse> | typeof LOCKED)[]> =>
  db.transaction(async (transaction) => {
    const ready = selectReady(writes, { isAlone });
    const accountIds = [...new Set(ready.map(({ accountId }) => accountId))];
    if (isAlone) {
      await limitLockWait(transaction, LOCK_WAIT_MS);
    }
    const options = { skipsLocked: !isAlone };
    const stores = await lockBalances(transaction, accountIds, options);
    if (isAlone) {
      await limitLockWait(transaction, 0);
    }
    const now = clock.now();
    const balances = new Map<string, StoreBalance>(stores.map((store) => [store.id, store]));
    const free = ready.filter(({ accountId }) => isAlone || balances.has(accountId));
    const registrations = free.filter((write) => "count" in write);
    const { limits, countRegistered } = await lockLimits(transaction, registrations, now);
    // Under the locks, earlier writes with these keys have committed.
    const responses = await readResponses(transaction, free);
    const refunds = free.filter(isRefund).filter((write) => !responses.has(keyOf(write) ?? ""));
    const { selected, donations } = await selectRefunded(transaction, refunds);
    const ledger: StoreLedger = {
      balances,
      responses,
      limits: new Map(limits.map((limit) => [accountModeKey(limit), limit])),
      selected,
      refusals: new Map(),
      accepted: [],
    };
    const results = new Map<AnyStoreWrite, Outcome<StoreResponse>>(
      free.map((write) => [write, outcomeOf(() => decideStoreWrite(write, ledger, now))]),
    );
    const context = { db: transaction, clock };
    const locked = await recordRefunded(context, ledger.accepted, donations, options);
    const isFree = ({ accountId }: AnyStoreWrite): boolean => !locked.has(accountId);
    const accepted = ledger.accepted.filter(({ write }) => isFree(write));
    await countRegistered(accepted.flatMap(({ write }) => ("count" in write ? [write] : [])));
    await recordStoreWrites(transaction, accepted);
    await reportDecisions(transaction, stores, ledger, now);
    return writes.map((write) => (isFree(write) && results.get(write)) || LOCKED);
  });

/**
 * Writes for stores by group commit. What the balance does not cover is rejected alone. The writes of a store whose balance
 * another transaction has locked leave their batch and wait apart, as do refunds that take long.
 */
export const createStoreWriter = (context: Context, observeBatch?: BatchObserver) => {
  const queue = new GroupCommit<AnyStoreWrite, Outcome<StoreResponse>>({
    write: (writes, options) =>
      writeStores(context, writes, options).catch((error: unknown) => {
        if (isLockTimeout(error)) {
          return writes.map(() => LOCKED);
        }
        throw error;
      }),
    accountOf: ({ accountId }) => accountId,
    observeBatch,
  });
  return {
    /**
     * Records a registration or a donation, and pays for it from the balance; or refunds units or donations.
     * @throws DomainError feature_disabled, balance_insufficient, daily_limit_reached, or request_invalid if the key was used for
     *   another request, the units exceed a limit, or less can be refunded
     */
    write: async (write: AnyStoreWrite): Promise<StoreResponse> =>
      resultOfOne([await queue.submit(write)]),
    drain: queue.drain,
    queueLength: queue.queueLength,
  };
};

/**
 * Does a write that calls another service first. A repetition does not call it, and neither does the write of a disabled
 * feature.
 * @throws DomainError as the writer
 */
export const writePrepared = async (
  { db, storeWriter }: StoreContext,
  write: StoreWrite,
  prepare: (store: Store) => Promise<AnyStoreWrite>,
): Promise<StoreResponse> => {
  const [earlier, store] = await Promise.all([
    findEarlierResponse(db, write),
    getStore(db, write.accountId),
  ]);
  if (earlier) {
    return earlier;
  }
  const disabled = findDisabled(store, write.operation);
  const preparing = disabled ? Promise.reject(disabled) : prepare(store);
  const prepared = await preparing.catch(async (error: unknown) => {
    // Another request with the key may have been recorded meanwhile.
    const recorded = await findEarlierResponse(db, write);
    if (recorded) {
      return recorded;
    }
    throw error;
  });
  return "replayed" in prepared ? prepared : storeWriter.write(prepared);
};
