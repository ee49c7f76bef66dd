import type { CommonQueryMethods } from "slonik";
import {
  addToTestRecordCounts,
  listTestRecordCounts,
} from "../../../db/accounts/testRecordCounts.ts";
import { runForAll } from "../../../db/pools/connectionShares.ts";
import type { AccountMode } from "../../../domain/accounts/accounts.ts";
import { createLookups } from "../../batching/createLookups.ts";

/** Beyond this number, accounts that are not writing are forgotten and read again with their next write. */
const MAXIMUM_REMEMBERED = 10_000;

type AccountRecords = {
  readonly accountId: string;
  /** As last read from the database, which includes other processes; null until it is read. */
  storedCount: number | null;
  /** Written here and not added to the database's count. */
  newCount: number;
  /** Being written. */
  requestedCount: number;
  /** Whether the count must be read because a write was rejected since: test data may have been deleted. */
  wasRejected: boolean;
};

export type TestQuota = {
  /** Returns whether the account's count is known; otherwise it must be read first. */
  readonly isKnown: (account: AccountMode) => boolean;
  /** Reads how many records the account's keys have stored. */
  readonly read: (account: AccountMode) => Promise<void>;
  /** Returns how many records the account's keys have stored or are storing; 0 in live mode. */
  readonly readCount: (account: AccountMode) => number;
  /** Notes that a write was rejected, so that the count is read again. */
  readonly noteRejection: (account: AccountMode) => void;
  /**
   * Counts records that are being written. Those of production keys are not counted.
   * @returns a function that ends the reservation, of whose records `newCount` were stored
   */
  readonly reserve: (account: AccountMode, count: number) => (newCount: number) => void;
  /** Adds what this process has counted to the database, and reads what others have. */
  readonly store: () => Promise<void>;
};

/** Ends the reservation of a production key. */
const endNothing = (): void => undefined;

/**
 * Counts the records that test keys write, in memory. The caller reads an account's count before its first write, compares
 * it with the limit, and stores the counts every few seconds. So an account can exceed its limit by what is written in that
 * time, and by what a process that was killed had not stored.
 */
export const createTestQuota = ({ db }: { readonly db: CommonQueryMethods }): TestQuota => {
  const accounts = new Map<string, AccountRecords>();
  const lookUp = createLookups((accountIds) => listTestRecordCounts(db, accountIds));

  const recordsOf = (accountId: string): AccountRecords => {
    let known = accounts.get(accountId);
    if (!known) {
      known = { accountId, storedCount: null, newCount: 0, requestedCount: 0, wasRejected: false };
      accounts.set(accountId, known);
    }
    return known;
  };

  const forgetIdle = (): void => {
    for (const [accountId, { newCount, requestedCount, wasRejected }] of accounts) {
      if (accounts.size <= MAXIMUM_REMEMBERED) {
        return;
      }
      if (newCount === 0 && requestedCount === 0 && !wasRejected) {
        accounts.delete(accountId);
      }
    }
  };

  return {
    isKnown: ({ accountId, mode }) => mode === "live" || recordsOf(accountId).storedCount !== null,
    read: async ({ accountId }) => {
      const count = await runForAll(() => lookUp(accountId));
      recordsOf(accountId).storedCount ??= count ?? 0;
    },
    readCount: ({ accountId, mode }) => {
      if (mode === "live") {
        return 0;
      }
      const { storedCount, newCount, requestedCount } = recordsOf(accountId);
      return (storedCount ?? 0) + newCount + requestedCount;
    },
    noteRejection: ({ accountId, mode }) => {
      if (mode === "test") {
        recordsOf(accountId).wasRejected = true;
      }
    },
    reserve: ({ accountId, mode }, count) => {
      if (mode === "live") {
        return endNothing;
      }
      const known = recordsOf(accountId);
      known.requestedCount += count;
      return (newCount) => {
        known.requestedCount -= count;
        known.newCount += newCount;
      };
    },
    store: async () => {
      forgetIdle();
      const changed = [...accounts.values()].filter(
        ({ newCount, wasRejected }) => newCount > 0 || wasRejected,
      );
      if (changed.length === 0) {
        return;
      }
      const added = changed.map(({ accountId, newCount: count }) => ({ accountId, count }));
      const stored = await addToTestRecordCounts(db, added);
      for (const { accountId, count } of added) {
        const known = recordsOf(accountId);
        known.newCount -= count;
        known.wasRejected = false;
      }
      for (const { accountId, count } of stored) {
        recordsOf(accountId).storedCount = count;
      }
    },
  };
};
