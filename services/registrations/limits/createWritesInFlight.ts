import type { AccountMode } from "../../../domain/accounts/accounts.ts";

/** A write that has begun and not ended. */
export type WriteInFlight = {
  readonly account: AccountMode;
  readonly keys: readonly string[];
  /** Resolves when the write has ended, whatever its result is. Null until another write waits for it. */
  ended: PromiseWithResolvers<void> | null;
};

export type WritesInFlight = {
  /** @param keys the write's idempotency keys. Without one it repeats no write, so it waits for none */
  readonly begin: (account: AccountMode, keys: readonly string[]) => WriteInFlight;
  /** Resolves when the earlier writes with one of the write's keys have ended. */
  readonly awaitEarlier: (write: WriteInFlight) => Promise<void>;
  readonly end: (write: WriteInFlight) => void;
};

/**
 * Tracks the writes of this process by their idempotency keys, so that a retry can wait for the result of a request that
 * is still being written. A write waits only for those that began before it, so no two wait for each other. Keys of
 * different operations are not distinguished: a client that uses one key for two operations may wait needlessly.
 */
export const createWritesInFlight = (): WritesInFlight => {
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

  return {
    begin: (account, keys) => {
      const write = { account, keys, ended: null };
      writes.add(write);
      return write;
    },
    awaitEarlier: async (own) => {
      await Promise.all(
        listEarlier(own).map((write) => {
          write.ended ??= Promise.withResolvers();
          return write.ended.promise;
        }),
      );
    },
    end: (write) => {
      writes.delete(write);
      write.ended?.resolve();
    },
  };
};
