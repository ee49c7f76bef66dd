import { createGroupCommit, LOCKED } from "../../db/batching/createGroupCommit.ts";
import type { BatchObserver } from "../../db/batching/createGroupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { isLockTimeout } from "./balances.sql.ts";
import type { PaidWrite, StoreResponse } from "./storeWrites.rules.ts";
import { writeStores } from "./writeStores.ts";

export type StoreWriter = {
  /**
   * Records a registration, a donation or a reversal, and changes the balance by what it costs or repays.
   * @throws DomainError feature_disabled, balance_insufficient, queue_full, daily_limit_reached, or request_invalid if the
   *   idempotency key was used for another request, the units exceed a limit of the store, or less can be reversed
   */
  readonly write: (write: PaidWrite) => Promise<StoreResponse>;
  /** Resolves when every waiting write is done. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

type Entry = PaidWrite & { readonly submittedAtMs: number };

/** A reversal of 10,000 records takes some seconds. */
const MAXIMUM_WAIT_MS = 30_000;

/**
 * Writes for stores by group commit. What the balance does not cover is rejected alone. The writes of a store whose balance
 * another transaction has locked, and those that take long or lock records, leave their batch and wait apart.
 */
export const createStoreWriter = ({
  observeBatch,
  maximumWaiting,
  ...context
}: Context & {
  readonly observeBatch?: BatchObserver;
  readonly maximumWaiting?: number;
}): StoreWriter => {
  const writeBatch = async (entries: readonly Entry[], options: { readonly isAlone: boolean }) => {
    try {
      return await writeStores(context, entries, options);
    } catch (error) {
      if (!isLockTimeout(error)) {
        throw error;
      }
      const oldestMs = performance.now() - MAXIMUM_WAIT_MS;
      return entries.map(({ submittedAtMs }) =>
        submittedAtMs > oldestMs
          ? LOCKED
          : new DomainError(
              "queue_full",
              "another write of this store is taking too long, try again",
              { cause: error },
            ),
      );
    }
  };

  const queue = createGroupCommit<Entry, StoreResponse | DomainError>({
    write: writeBatch,
    accountOf: ({ accountId }) => accountId,
    observeBatch,
    maximumWaiting,
  });
  return {
    write: async (write) => {
      const result = await queue.submit({ ...write, submittedAtMs: performance.now() });
      if (result instanceof DomainError) {
        throw result;
      }
      return result;
    },
    drain: queue.drain,
    queueLength: queue.queueLength,
  };
};
