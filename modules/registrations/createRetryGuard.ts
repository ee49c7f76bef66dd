import type { AccountMode } from "../records/owner.rules.ts";
import { DomainError, OutageError } from "../../runtime/errors.rules.ts";

/** A write of a client, and how to find the result of the first one if this one repeats it. */
export type WriteAttempt<Result> = {
  readonly idempotencyKey: string | null;
  readonly write: () => Promise<Result>;
  readonly findOriginal: () => Promise<Result | null>;
};

export type RetryGuard = {
  /**
   * Runs a write. If it fails, returns what an earlier one with its idempotency key has recorded meanwhile.
   * @throws what `write` throws
   */
  readonly write: <Result>(account: AccountMode, attempt: WriteAttempt<Result>) => Promise<Result>;
  /**
   * Runs a write with several idempotency keys. Before it rejects an item, it awaits earlier writes with its keys by
   * `awaitEarlier`, and looks them up.
   */
  readonly writeBatch: <Result>(
    account: AccountMode,
    idempotencyKeys: readonly string[],
    write: (awaitEarlier: () => Promise<void>) => Promise<Result>,
  ) => Promise<Result>;
};

/** A write that has begun and not ended. */
type WriteInFlight = {
  readonly account: AccountMode;
  /** Without one it repeats no write, so it waits for none. */
  readonly keys: readonly string[];
  /** Resolves when the write has ended, whatever its result is. Null until another write waits for it. */
  ended: PromiseWithResolvers<void> | null;
};

/** Whether a write has failed. A full queue is no time for queries, and its error asks for another retry. */
export const isFinal = (error: unknown): boolean =>
  error instanceof OutageError || (error instanceof DomainError && error.code !== "queue_full");

/**
 * Tracks the writes of this process by their idempotency keys, so that a retry that fails can wait for the result of a
 * request that is still being written. A write waits only for those that began before it, so no two wait for each other.
 * Keys of different operations are not distinguished: a client that uses one key for two operations may wait needlessly.
 */
export const createRetryGuard = (): RetryGuard => {
  /** In the order in which they began. */
  const writes = new Set<WriteInFlight>();

  const listEarlier = (own: WriteInFlight): readonly WriteInFlight[] => {
    const keys = new Set(own.keys);
    const earlier: WriteInFlight[] = [];
    for (const write of writes) {
      if (write === own) {
        break;
      }
      const { accountId, mode } = write.account;
      if (
        accountId === own.account.accountId &&
        mode === own.account.mode &&
        write.keys.some((key) => keys.has(key))
      ) {
        earlier.push(write);
      }
    }
    return earlier;
  };

  const writeBatch: RetryGuard["writeBatch"] = async (account, keys, write) => {
    const own: WriteInFlight = { account, keys, ended: null };
    writes.add(own);
    try {
      return await write(async () => {
        await Promise.all(
          listEarlier(own).map((each) => {
            each.ended ??= Promise.withResolvers();
            return each.ended.promise;
          }),
        );
      });
    } finally {
      writes.delete(own);
      own.ended?.resolve();
    }
  };

  return {
    write: (account, { idempotencyKey: key, write, findOriginal }) =>
      writeBatch(account, key === null ? [] : [key], async (awaitEarlier) => {
        try {
          return await write();
        } catch (error) {
          if (key === null || !isFinal(error)) {
            throw error;
          }
          await awaitEarlier();
          const original = await findOriginal();
          if (original === null) {
            throw error;
          }
          return original;
        }
      }),
    writeBatch,
  };
};
