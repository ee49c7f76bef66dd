import type { CommonQueryMethods } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import {
  addToDailyCounts,
  listUsualDays,
  markDayReported,
} from "../../db/registrations/dailyCounts.ts";
import type { DailyCount } from "../../db/registrations/dailyCounts.ts";
import type { AccountMode, Mode } from "../../domain/accounts/accounts.ts";
import type { AccountLimits, UsualDay } from "../../domain/accounts/limits.ts";
import {
  isUnusualDay,
  limitsOf,
  requireAffordableCount,
  requireTestSpace,
} from "../../domain/accounts/limits.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type { WriteAttempt } from "../accounts/createTestQuota.ts";
import { createTestQuota } from "../accounts/createTestQuota.ts";

/** How often this process stores its counts and reads those of other processes. */
const STORE_INTERVAL_MS = 2000;

/** An account's day that is ten times as large as its usual one. */
export type UnusualDay = DailyCount & { readonly usualCount: number };

type OwnerDay = AccountMode & {
  readonly day: string;
  /** As last read from the database, which includes other processes. */
  storedCount: number;
  /** Registered here and not stored. */
  newCount: number;
  /** Requested and not registered yet. */
  requestedCount: number;
  /** Undefined until it is read, once. */
  usual?: UsualDay | null;
  isReported: boolean;
};

/** An item of a batch, as far as limits concern it. */
type GuardedItem = {
  /** Units to register; null if the item has none, such as a refund. */
  readonly count: number | null;
  readonly idempotencyKey: string | null;
};

/** What a batch has recorded that was not recorded before. */
type NewRecords = { readonly newRecords: number; readonly newUnits: number };

export type SpendingGuard = {
  /**
   * Runs a registration if the account's limits allow its units. Otherwise only a repeated request gets its original
   * response, which bills nothing.
   * @throws DomainError request_invalid or test_quota_reached beyond a limit, and what `write` throws
   */
  readonly register: <Result extends { readonly replayed: boolean }>(
    caller: Pick<Caller, "accountId" | "mode" | "limits">,
    units: { readonly field: string; readonly count: number },
    attempt: WriteAttempt<Result>,
  ) => Promise<Result>;
  /**
   * Runs a write that has no units, such as a refund, if the account may store another record in its mode.
   * @throws DomainError test_quota_reached, and what `write` throws
   */
  readonly write: <Result extends { readonly replayed: boolean }>(
    caller: Pick<Caller, "accountId" | "mode" | "limits">,
    attempt: WriteAttempt<Result>,
  ) => Promise<Result>;
  /**
   * Runs a batch. Items are compared with the limits in their order; those that exceed one are rejected, except repeated
   * ones, which bill nothing.
   * @param attempt.write records the items without those that are rejected, or throws
   * @throws what `write` throws
   */
  readonly writeBatch: <Result extends NewRecords>(
    caller: Pick<Caller, "accountId" | "mode" | "limits">,
    items: readonly GuardedItem[],
    attempt: {
      readonly findKnownKeys: () => Promise<ReadonlySet<string>>;
      readonly write: (rejections: ReadonlyMap<number, DomainError>) => Promise<Result>;
    },
  ) => Promise<Result>;
  /** Stores the counts of this process. */
  readonly store: () => Promise<void>;
  /** Stores the counts for the last time. */
  readonly stop: () => Promise<void>;
};

const nameOf = ({ accountId, mode, day }: AccountMode & { readonly day: string }): string =>
  `${accountId}/${mode}/${day}`;

const dayOf = (time: Date): string => time.toISOString().slice(0, 10);

/**
 * Checks what accounts register against their limits, in memory: each process adds its counts to the database every two
 * seconds and reads the sums. So a day can exceed its limit by what other processes accept in that time, and by what
 * a process that was killed had not stored.
 * @param onUnusualDay called once per account and day, by one process
 * @param onError called when counts cannot be stored; they are kept and stored later
 */
export const createSpendingGuard = ({
  db,
  clock,
  defaults,
  onUnusualDay,
  onError,
}: {
  readonly db: CommonQueryMethods;
  readonly clock: Clock;
  readonly defaults: Readonly<Record<Mode, AccountLimits>>;
  readonly onUnusualDay: (day: UnusualDay) => void;
  readonly onError: (error: unknown) => void;
}): SpendingGuard => {
  const days = new Map<string, OwnerDay>();
  const testQuota = createTestQuota({ db });
  let lastDay = "";
  let lastDayEndsMs = 0;

  const today = (): string => {
    const now = clock.now();
    if (now.getTime() >= lastDayEndsMs || now.getTime() < lastDayEndsMs - 86_400_000) {
      lastDay = dayOf(now);
      lastDayEndsMs = Date.parse(lastDay) + 86_400_000;
    }
    return lastDay;
  };

  const dayOfOwner = ({ accountId, mode }: AccountMode): OwnerDay => {
    const owner = { accountId, mode, day: today() };
    const name = nameOf(owner);
    let known = days.get(name);
    if (!known) {
      known = { ...owner, storedCount: 0, newCount: 0, requestedCount: 0, isReported: false };
      days.set(name, known);
    }
    return known;
  };

  const reportIfUnusual = async (known: OwnerDay): Promise<void> => {
    if (known.isReported || !known.usual || !isUnusualDay(known.storedCount, known.usual)) {
      return;
    }
    if (await markDayReported(db, known, clock.now())) {
      const { accountId, mode, day, storedCount: count, usual } = known;
      onUnusualDay({ accountId, mode, day, count, usualCount: usual.meanCount });
    }
    known.isReported = true;
  };

  const readUsualDays = async (changed: readonly OwnerDay[]): Promise<void> => {
    // Test mode costs nothing, so its days are never reported as unusual.
    const unread = changed.filter(({ mode, usual }) => mode === "live" && usual === undefined);
    for (const day of new Set(unread.map((each) => each.day))) {
      const owners = unread.filter((each) => each.day === day);
      const found = new Map(
        (await listUsualDays(db, owners, day)).map((usual) => [nameOf({ ...usual, day }), usual]),
      );
      for (const owner of owners) {
        owner.usual = found.get(nameOf(owner)) ?? null;
      }
    }
  };

  const storeDays = async (): Promise<void> => {
    const changed = [...days.values()].filter(({ newCount }) => newCount > 0);
    // Days that nothing waits for are forgotten. They are read again with the account's next registration.
    for (const [name, { newCount, requestedCount, day }] of days) {
      if (newCount === 0 && requestedCount === 0 && day !== today()) {
        days.delete(name);
      }
    }
    if (changed.length === 0) {
      return;
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
      const known = days.get(nameOf(sum));
      if (known) {
        known.storedCount = sum.count;
      }
    }
    await readUsualDays(changed);
    for (const known of changed) {
      await reportIfUnusual(known);
    }
  };

  /** Returns the items that exceed a limit, with the units and records of the others. */
  const checkItems = (
    caller: Pick<Caller, "accountId" | "mode" | "limits">,
    items: readonly GuardedItem[],
    knownKeys: ReadonlySet<string>,
  ) => {
    const day = dayOfOwner(caller);
    const limits = limitsOf(defaults[caller.mode], caller.limits);
    const countToday = day.storedCount + day.newCount + day.requestedCount;
    const storedRecords = testQuota.readCount(caller);
    const rejections = new Map<number, DomainError>();
    const keys = new Set(knownKeys);
    let units = 0;
    let records = 0;
    for (const [index, { count, idempotencyKey }] of items.entries()) {
      if (idempotencyKey !== null && keys.has(idempotencyKey)) {
        continue;
      }
      try {
        if (count !== null) {
          requireAffordableCount(limits, { field: "count", count, countToday: countToday + units });
        }
        if (caller.mode === "test") {
          requireTestSpace(limits.testRecords, storedRecords + records);
        }
      } catch (error) {
        if (!(error instanceof DomainError)) {
          throw error;
        }
        rejections.set(index, error);
        continue;
      }
      units += count ?? 0;
      records += 1;
      if (idempotencyKey !== null) {
        keys.add(idempotencyKey);
      }
    }
    return { day, rejections, units, records };
  };

  let storing: Promise<void> = Promise.resolve();
  const storeNext = (): Promise<void> => {
    storing = storing.then(storeDays).then(testQuota.store).catch(onError);
    return storing;
  };
  const timer = setInterval(() => void storeNext(), STORE_INTERVAL_MS);
  timer.unref();

  return {
    register: async (caller, { field, count }, { write, findOriginal }) => {
      const known = dayOfOwner(caller);
      const limits = limitsOf(defaults[caller.mode], caller.limits);
      const countToday = known.storedCount + known.newCount + known.requestedCount;
      try {
        requireAffordableCount(limits, { field, count, countToday });
      } catch (error) {
        const original = error instanceof DomainError ? await findOriginal() : null;
        if (original === null) {
          throw error;
        }
        return original;
      }
      known.requestedCount += count;
      try {
        const result = await testQuota.run(caller, limits.testRecords, { write, findOriginal });
        known.newCount += result.replayed ? 0 : count;
        return result;
      } finally {
        known.requestedCount -= count;
      }
    },
    write: (caller, attempt) =>
      testQuota.run(caller, limitsOf(defaults[caller.mode], caller.limits).testRecords, attempt),
    writeBatch: async (caller, items, { findKnownKeys, write }) => {
      let checked = checkItems(caller, items, new Set());
      if (checked.rejections.size > 0) {
        testQuota.noteRejection(caller);
        checked = checkItems(caller, items, await findKnownKeys());
      }
      const { day, rejections, units, records } = checked;
      day.requestedCount += units;
      try {
        const result = await testQuota.runCounted(caller, records, () => write(rejections));
        day.newCount += result.newUnits;
        return result;
      } finally {
        day.requestedCount -= units;
      }
    },
    store: storeNext,
    stop: async () => {
      clearInterval(timer);
      await storeNext();
    },
  };
};
