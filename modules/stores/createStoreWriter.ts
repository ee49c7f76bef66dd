import { GroupCommit, LOCKED } from "../../db/batching/groupCommit.ts";
import type { BatchObserver } from "../../db/batching/groupCommit.ts";
import type { Context } from "../../runtime/context.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { isLockTimeout } from "./stores.sql.ts";
import type { AnyStoreWrite, StoreResponse } from "./storeWrites.rules.ts";
import { writeStores } from "./writeStores.ts";

export type StoreWriter = {
  /**
   * Records a registration or a donation, and pays for it from the balance; or refunds units or donations.
   * @throws DomainError feature_disabled, balance_insufficient, queue_full if another write takes too long, daily_limit_reached, or request_invalid if the
   *   idempotency key was used for another request, the units exceed a limit of the store, or less can be refunded
   */
  readonly write: (write: AnyStoreWrite) => Promise<StoreResponse>;
  /** Resolves when every waiting write is done. */
  readonly drain: () => Promise<void>;
  readonly queueLength: () => number;
};

export type StoreContext = Context & { readonly storeWriter: StoreWriter };

type Entry = AnyStoreWrite & { readonly submittedAtMs: number };

/** A refund of 10,000 records takes some seconds. */
const MAXIMUM_WAIT_MS = 30_000;

const mayWait = (submittedAtMs: number): boolean =>
  performance.now() - submittedAtMs < MAXIMUM_WAIT_MS;

const takesTooLong = (cause: unknown): DomainError =>
  new DomainError("queue_full", "another write of this store is taking too long, try again", {
    cause,
  });

/**
 * Writes for stores by group commit. What the balance does not cover is rejected alone. The writes of a store whose balance
 * another transaction has locked leave their batch and wait apart, as do refunds that take long.
 */
export const createStoreWriter = ({
  observeBatch,
  ...context
}: Context & {
  readonly observeBatch?: BatchObserver;
}): StoreWriter => {
  const writeBatch = async (entries: readonly Entry[], options: { readonly isAlone: boolean }) => {
    try {
      return await writeStores(context, entries, options);
    } catch (error) {
      const isOneStore = new Set(entries.map(({ accountId }) => accountId)).size === 1;
      // Of several stores, the batch is divided, so that the others are still written together.
      if (!isOneStore || !isLockTimeout(error)) {
        throw error;
      }
      return entries.map(({ submittedAtMs }) =>
        mayWait(submittedAtMs) ? LOCKED : takesTooLong(error),
      );
    }
  };

  const queue = new GroupCommit<Entry, StoreResponse | DomainError>({
    write: writeBatch,
    accountOf: ({ accountId }) => accountId,
    observeBatch,
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
