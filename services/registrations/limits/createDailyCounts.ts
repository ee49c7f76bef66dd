import type { CommonQueryMethods } from "slonik";
import { runForAll } from "../../../db/pools/connectionShares.ts";
import {
  addToDailyCounts,
  listDailyCounts,
  listUsualDays,
  markDayReported,
} from "../../../db/registrations/dailyCounts.ts";
import type { DailyCount } from "../../../db/registrations/dailyCounts.ts";
import type { AccountMode } from "../../../domain/accounts/accounts.ts";
import type { UsualDay } from "../../../domain/accounts/limits.ts";
import { isUnusualDay } from "../../../domain/accounts/limits.ts";
import type { Clock } from "../../../domain/clock.ts";
import { DAY_MS } from "../../../domain/durations.ts";

/** An account's day that is ten times as large as its usual one. */
export type UnusualDay = DailyCount & { readonly usualCount: number };

type AccountDay = AccountMode & {
  readonly day: string;
  /** As last read from the database, which includes other processes. */
  storedCount: number;
  /** Whether `storedCount` was read since this process last stored counts, or when it did. */
  isCurrent: boolean;
  /** Registered here and not stored. */
  newCount: number;
  /** Requested and not registered yet. */
  requestedCount: number;
  /** Undefined until it is read, once. */
  usual?: UsualDay | null;
  isReported: boolean;
};

export type DailyCounts = {
  /** Returns whether the account's count of today is as new as a limit needs it; otherwise it must be read first. */
  readonly isCurrent: (account: AccountMode) => boolean;
  /** Reads the account's count of today, in one statement for all accounts that wait. */
  readonly read: (account: AccountMode) => Promise<void>;
  /** Returns the units that the account has registered or is registering today, UTC. */
  readonly readCount: (account: AccountMode) => number;
  /**
   * Counts units that are being registered.
   * @returns a function that ends the reservation, of whose units `newCount` were registered
   */
  readonly reserve: (account: AccountMode, count: number) => (newCount: number) => void;
  /** Adds what this process has counted to the database, and reads what others have. */
  readonly store: () => Promise<void>;
};

const keyOf = ({ accountId, mode, day }: AccountMode & { readonly day: string }): string =>
  `${accountId}/${mode}/${day}`;

/** Returns a function that returns the day in UTC, and formats it only once a day. */
const createToday = (clock: Clock): (() => string) => {
  let day = "";
  let endsMs = 0;
  return () => {
    const nowMs = clock.now().getTime();
    if (nowMs >= endsMs || nowMs < endsMs - DAY_MS) {
      day = new Date(nowMs).toISOString().slice(0, 10);
      endsMs = Date.parse(day) + DAY_MS;
    }
    return day;
  };
};

/**
 * Counts the units that accounts register on a day, in memory. The caller compares the counts with the limit, and stores
 * them every few seconds. What other processes have stored is read then, or before an account's next registration if it
 * has a limit. So a day can exceed its limit by what other processes accept in twice that time, and by what a process that
 * was killed had not stored.
 * @param onUnusualDay called once per account and day, by one process
 */
export const createDailyCounts = ({
  db,
  clock,
  onUnusualDay,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
  readonly onUnusualDay: (day: UnusualDay) => void;
}): DailyCounts => {
  const days = new Map<string, AccountDay>();
  const today = createToday(clock);
  const waiting = new Set<AccountDay>();
  let reading: Promise<void> | null = null;
  let lastExchange: Promise<unknown> = Promise.resolve();

  /** Stores or reads after what is running, so that a count that is read does not have units that `newCount` has, too. */
  const exchange = <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = lastExchange.then(work);
    lastExchange = result.catch(() => undefined);
    return result;
  };

  const dayOf = ({ accountId, mode }: AccountMode): AccountDay => {
    const ofAccount = { accountId, mode, day: today() };
    const key = keyOf(ofAccount);
    let known = days.get(key);
    if (!known) {
      known = {
        ...ofAccount,
        storedCount: 0,
        isCurrent: false,
        newCount: 0,
        requestedCount: 0,
        isReported: false,
      };
      days.set(key, known);
    }
    return known;
  };

  /** Forgets past days that nothing waits for. They are read again with the account's next registration. */
  const forgetPast = (): void => {
    for (const [key, { newCount, requestedCount, day }] of days) {
      if (newCount === 0 && requestedCount === 0 && day !== today()) {
        days.delete(key);
      }
    }
  };

  const reportIfUnusual = async (known: AccountDay): Promise<void> => {
    if (known.isReported || !known.usual || !isUnusualDay(known.storedCount, known.usual)) {
      return;
    }
    if (await markDayReported(db, known, clock.now())) {
      const { accountId, mode, day, storedCount: count, usual } = known;
      onUnusualDay({ accountId, mode, day, count, usualCount: usual.meanCount });
    }
    known.isReported = true;
  };

  const readUsualDays = async (changed: readonly AccountDay[]): Promise<void> => {
    // Test mode costs nothing, so its days are never reported as unusual.
    const unread = changed.filter(({ mode, usual }) => mode === "live" && usual === undefined);
    for (const day of new Set(unread.map((each) => each.day))) {
      const accounts = unread.filter((each) => each.day === day);
      const found = new Map(
        (await listUsualDays(db, accounts, day)).map((usual) => [keyOf({ ...usual, day }), usual]),
      );
      for (const account of accounts) {
        account.usual = found.get(keyOf(account)) ?? null;
      }
    }
  };

  const readWaiting = async (): Promise<void> => {
    reading = null;
    const read = [...waiting];
    waiting.clear();
    const found = await listDailyCounts(db, read);
    const counts = new Map(found.map((each) => [keyOf(each), each.count]));
    for (const known of read) {
      known.storedCount = counts.get(keyOf(known)) ?? 0;
      known.isCurrent = true;
    }
  };

  /** Returns the days whose counts were stored. */
  const storeChanged = async (): Promise<readonly AccountDay[]> => {
    const changed: AccountDay[] = [];
    for (const known of days.values()) {
      if (known.newCount > 0) {
        changed.push(known);
      } else {
        known.isCurrent = false;
      }
    }
    forgetPast();
    if (changed.length === 0) {
      return changed;
    }
    const added = changed.map(({ accountId, mode, day, newCount }) => ({
      accountId,
      mode,
      day,
      // What exceeds a safe integer is added next time.
      count: Math.min(newCount, Number.MAX_SAFE_INTEGER),
    }));
    const stored = await addToDailyCounts(db, added);
    for (const [index, known] of changed.entries()) {
      known.newCount -= added[index]?.count ?? 0;
    }
    for (const sum of stored) {
      const known = days.get(keyOf(sum));
      if (known) {
        known.storedCount = sum.count;
        known.isCurrent = true;
      }
    }
    return changed;
  };

  return {
    isCurrent: (account) => dayOf(account).isCurrent,
    read: (account) => {
      waiting.add(dayOf(account));
      reading ??= runForAll(() => exchange(readWaiting));
      return reading;
    },
    readCount: (account) => {
      const { storedCount, newCount, requestedCount } = dayOf(account);
      return storedCount + newCount + requestedCount;
    },
    reserve: (account, count) => {
      // The units belong to the day of the request, also if it ends meanwhile.
      const day = dayOf(account);
      day.requestedCount += count;
      return (newCount) => {
        day.requestedCount -= count;
        day.newCount += newCount;
      };
    },
    store: async () => {
      const changed = await exchange(storeChanged);
      await readUsualDays(changed);
      for (const known of changed) {
        await reportIfUnusual(known);
      }
    },
  };
};
