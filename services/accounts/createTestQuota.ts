import type { CommonQueryMethods } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { addToTestRecordCounts } from "../../db/accounts/testRecordCounts.ts";
import { requireTestSpace } from "../../domain/accounts/limits.ts";
import { DomainError } from "../../domain/errors.ts";

/** Beyond this number, accounts that are not writing are forgotten and read again with their next write. */
const MAXIMUM_REMEMBERED = 10_000;

/** What a write returns; a replayed one has stored nothing. */
type Written = { readonly replayed: boolean };

/** A write of a client, and how to find the result of the first one if this one repeats it. */
export type WriteAttempt<Result extends Written> = {
  readonly write: () => Promise<Result>;
  readonly findOriginal: () => Promise<Result | null>;
};

type AccountRecords = {
  readonly accountId: string;
  /** As last read from the database, which includes other processes. */
  storedCount: number;
  /** Written here and not added to the database's count. */
  newCount: number;
  /** Being written. */
  requestedCount: number;
  /** Whether the count must be read because a write was rejected since: test data may have been deleted. */
  wasRejected: boolean;
};

export type TestQuota = {
  /**
   * Runs a write of one record, unless the account's test data have reached their limit. Then only a repeated write gets
   * its original result. Writes with production keys are not counted.
   * @throws DomainError test_quota_reached, and what `write` throws
   */
  readonly run: <Result extends Written>(
    caller: Pick<Caller, "accountId" | "mode">,
    testRecords: number,
    attempt: WriteAttempt<Result>,
  ) => Promise<Result>;
  /** Returns how many records the account's keys have stored or are storing; 0 in live mode. */
  readonly readCount: (caller: Pick<Caller, "accountId" | "mode">) => number;
  /** Notes that a write was rejected, so that the count is read again. */
  readonly noteRejection: (caller: Pick<Caller, "accountId" | "mode">) => void;
  /** Runs a write of at most `count` records, which the caller has compared with the limit. */
  readonly runCounted: <Result extends { readonly newRecords: number }>(
    caller: Pick<Caller, "accountId" | "mode">,
    count: number,
    write: () => Promise<Result>,
  ) => Promise<Result>;
  /** Adds what this process has counted to the database, and reads what others have. */
  readonly store: () => Promise<void>;
};

/**
 * Counts the records that test keys write, in memory. The caller stores the counts every few seconds, so an account can
 * exceed its limit by what is written in that time, and by what a process that was killed had not stored.
 */
export const createTestQuota = ({ db }: { readonly db: CommonQueryMethods }): TestQuota => {
  const accounts = new Map<string, AccountRecords>();

  const recordsOf = (accountId: string): AccountRecords => {
    let known = accounts.get(accountId);
    if (!known) {
      known = { accountId, storedCount: 0, newCount: 0, requestedCount: 0, wasRejected: false };
      accounts.set(accountId, known);
    }
    return known;
  };

  const runInTestMode = async <Result extends Written>(
    accountId: string,
    testRecords: number,
    { write, findOriginal }: WriteAttempt<Result>,
  ): Promise<Result> => {
    const known = recordsOf(accountId);
    try {
      requireTestSpace(testRecords, known.storedCount + known.newCount + known.requestedCount);
    } catch (error) {
      known.wasRejected = true;
      const original = error instanceof DomainError ? await findOriginal() : null;
      if (original === null) {
        throw error;
      }
      return original;
    }
    known.requestedCount += 1;
    try {
      const result = await write();
      known.newCount += result.replayed ? 0 : 1;
      return result;
    } finally {
      known.requestedCount -= 1;
    }
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
    run: (caller, testRecords, attempt) =>
      caller.mode === "live"
        ? attempt.write()
        : runInTestMode(caller.accountId, testRecords, attempt),
    readCount: ({ accountId, mode }) => {
      if (mode === "live") {
        return 0;
      }
      const { storedCount, newCount, requestedCount } = recordsOf(accountId);
      return storedCount + newCount + requestedCount;
    },
    noteRejection: ({ accountId, mode }) => {
      if (mode === "test") {
        recordsOf(accountId).wasRejected = true;
      }
    },
    runCounted: async ({ accountId, mode }, count, write) => {
      if (mode === "live") {
        return write();
      }
      const known = recordsOf(accountId);
      known.requestedCount += count;
      try {
        const result = await write();
        known.newCount += result.newRecords;
        return result;
      } finally {
        known.requestedCount -= count;
      }
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
        recordsOf(accountId).newCount -= count;
      }
      for (const { accountId, count } of stored) {
        const known = recordsOf(accountId);
        known.storedCount = count;
        known.wasRejected = false;
      }
    },
  };
};
