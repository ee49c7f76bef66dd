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
import { DomainError, OutageError } from "../../domain/errors.ts";
import { createTestQuota } from "../accounts/createTestQuota.ts";
import { createWritesInFlight } from "./createWritesInFlight.ts";
import type { WriteInFlight } from "./createWritesInFlight.ts";

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

type LimitedCaller = Pick<Caller, "accountId" | "mode" | "limits">;

/** A write of a client, and how to find the result of the first one if this one repeats it. */
export type WriteAttempt<Result> = {
  readonly idempotencyKey: string | null;
  readonly write: () => Promise<Result>;
  readonly findOriginal: () => Promise<Result | null>;
};

/** An item of a batch, as far as limits concern it. */
type GuardedItem = {
  /** Units to register; null if the item has none, such as a refund. */
  readonly count: number | null;
  readonly idempotencyKey: string | null;
};

/** What a write has recorded that was not recorded before. */
type NewRecords = { readonly newRecords: number; readonly newUnits: number };

const NOTHING: NewRecords = { newRecords: 0, newUnits: 0 };

export type SpendingGuard = {
  /**
   * Runs a registration if the account's limits allow its units. Otherwise only a repeated request gets its original
   * response, which bills nothing.
   * @throws DomainError request_invalid or test_quota_reached beyond a limit, and what `write` throws
   */
  readonly register: <Result extends { readonly replayed: boolean }>(
    caller: LimitedCaller,
    units: { readonly field: string; readonly count: number },
    attempt: WriteAttempt<Result>,
  ) => Promise<Result>;
  /**
   * Runs a write that has no units, such as a refund, if the account may store another record in its mode. If it fails
   * while an earlier one with its idempotency key is in flight, it gets what that one records.
   * @throws DomainError test_quota_reached, and what `write` throws
   */
  readonly write: <Result extends { readonly replayed: boolean }>(
    caller: LimitedCaller,
    attempt: WriteAttempt<Result>,
  ) => Promise<Result>;
  /**
   * Runs a batch. Items are compared with the limits in their order; those that exceed one are rejected, except repeated
   * ones, which bill nothing.
   * @param attempt.write records the items without those that are rejected, or throws
   * @throws what `write` throws
   */
  readonly writeBatch: <Result extends NewRecords>(
    caller: LimitedCaller,
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

/** Returns why the limits do not allow another record, or null. */
const findExcess = (
  { mode }: LimitedCaller,
  limits: AccountLimits,
  { field, count }: { readonly field: string; readonly count: number | null },
  used: NewRecords,
): DomainError | null => {
  try {
    if (count !== null) {
      requireAffordableCount(limits, { field, count, countToday: used.newUnits });
    }
    if (mode === "test") {
      requireTestSpace(limits.testRecords, used.newRecords);
    }
    return null;
  } catch (error) {
    if (error instanceof DomainError) {
      return error;
    }
    throw error;
  }
};

/**
 * Checks what accounts register against their limits, in memory: each process adds its counts to the database every two
 * seconds and reads the sums. So a day can exceed its limit by what other processes accept in that time, and by what
 * a process that was killed had not stored.
 *
 * A write beyond a limit is not decided while an earlier one with its idempotency key is in flight in this process. If it
 * repeats that one, it gets the recorded original; if that one fails, its units are free again. Other writes, and those
 * without a key, cannot be recorded by an earlier one, so they are rejected immediately.
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
  const inFlight = createWritesInFlight();
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

  /** Returns what the account uses of its limits, with what its writes in flight have reserved. */
  const readUse = (caller: LimitedCaller): NewRecords => {
    const { storedCount, newCount, requestedCount } = dayOfOwner(caller);
    return {
      newUnits: storedCount + newCount + requestedCount,
      newRecords: testQuota.readCount(caller),
    };
  };

  /** Returns the items that exceed a limit, and what the others record. */
  const checkItems = (
    caller: LimitedCaller,
    items: readonly GuardedItem[],
    knownKeys: ReadonlySet<string>,
  ) => {
    const limits = limitsOf(defaults[caller.mode], caller.limits);
    const used = readUse(caller);
    const rejections = new Map<number, DomainError>();
    const keys = new Set(knownKeys);
    let newUnits = 0;
    let newRecords = 0;
    for (const [index, { count, idempotencyKey }] of items.entries()) {
      if (idempotencyKey !== null && keys.has(idempotencyKey)) {
        continue;
      }
      const excess = findExcess(
        caller,
        limits,
        { field: "count", count },
        { newUnits: used.newUnits + newUnits, newRecords: used.newRecords + newRecords },
      );
      if (excess !== null) {
        rejections.set(index, excess);
        continue;
      }
      newUnits += count ?? 0;
      newRecords += 1;
      if (idempotencyKey !== null) {
        keys.add(idempotencyKey);
      }
    }
    return { rejections, reserved: { newUnits, newRecords } };
  };

  /** Runs a write that the limits allow. Meanwhile what it may record counts as used. */
  const runReserved = async <Result>(
    caller: LimitedCaller,
    reserved: NewRecords,
    write: () => Promise<Result>,
    recordedBy: (result: Result) => NewRecords,
  ): Promise<Result> => {
    const day = dayOfOwner(caller);
    day.requestedCount += reserved.newUnits;
    testQuota.reserve(caller, reserved.newRecords);
    let recorded = NOTHING;
    try {
      const result = await write();
      recorded = recordedBy(result);
      return result;
    } finally {
      day.requestedCount -= reserved.newUnits;
      day.newCount += recorded.newUnits;
      testQuota.settle(caller, reserved.newRecords, recorded.newRecords);
    }
  };

  /** Runs a write that others with its idempotency key can wait for. */
  const runTracked = async <Result>(
    caller: LimitedCaller,
    idempotencyKey: string | null,
    write: (own: WriteInFlight) => Promise<Result>,
  ): Promise<Result> => {
    const own = inFlight.begin(caller, idempotencyKey === null ? [] : [idempotencyKey]);
    try {
      return await write(own);
    } finally {
      inFlight.end(own);
    }
  };

  /** Runs a write of one record, if the limits allow it. */
  const runOne = async <Result extends { readonly replayed: boolean }>(
    caller: LimitedCaller,
    own: WriteInFlight,
    units: { readonly field: string; readonly count: number | null },
    { write, findOriginal }: WriteAttempt<Result>,
  ): Promise<Result> => {
    const limits = limitsOf(defaults[caller.mode], caller.limits);
    let excess = findExcess(caller, limits, units, readUse(caller));
    if (excess !== null) {
      await inFlight.awaitEarlier(own);
      excess = findExcess(caller, limits, units, readUse(caller));
    }
    if (excess !== null) {
      testQuota.noteRejection(caller);
      const original = await findOriginal();
      if (original === null) {
        throw excess;
      }
      return original;
    }
    const reserved = { newUnits: units.count ?? 0, newRecords: 1 };
    return runReserved(caller, reserved, write, ({ replayed }) => (replayed ? NOTHING : reserved));
  };

  /** Runs a write. If it fails, it gets what an earlier one with its key has recorded meanwhile. */
  const writeOrFindOriginal = async <Result>(
    own: WriteInFlight,
    { idempotencyKey, write, findOriginal }: WriteAttempt<Result>,
  ): Promise<Result> => {
    try {
      return await write();
    } catch (error) {
      // A full queue is no time for queries, and its error asks for another retry.
      const isFinal =
        (error instanceof DomainError && error.code !== "queue_full") ||
        error instanceof OutageError;
      if (idempotencyKey === null || !isFinal) {
        throw error;
      }
      await inFlight.awaitEarlier(own);
      const original = await findOriginal();
      if (original === null) {
        throw error;
      }
      return original;
    }
  };

  let storing: Promise<void> = Promise.resolve();
  const storeNext = (): Promise<void> => {
    storing = storing.then(storeDays).then(testQuota.store).catch(onError);
    return storing;
  };
  const timer = setInterval(() => void storeNext(), STORE_INTERVAL_MS);
  timer.unref();

  return {
    register: (caller, units, attempt) =>
      runTracked(caller, attempt.idempotencyKey, (own) => runOne(caller, own, units, attempt)),
    write: (caller, attempt) =>
      runTracked(caller, attempt.idempotencyKey, (own) => {
        const write = () => writeOrFindOriginal(own, attempt);
        // With production keys, only units are limited.
        return caller.mode === "live"
          ? write()
          : runOne(caller, own, { field: "count", count: null }, { ...attempt, write });
      }),
    writeBatch: async (caller, items, { findKnownKeys, write }) => {
      const keys = items.flatMap(({ idempotencyKey }) => idempotencyKey ?? []);
      const own = inFlight.begin(caller, keys);
      try {
        let checked = checkItems(caller, items, new Set());
        if (checked.rejections.size > 0) {
          await inFlight.awaitEarlier(own);
          testQuota.noteRejection(caller);
          checked = checkItems(caller, items, await findKnownKeys());
        }
        const { rejections, reserved } = checked;
        return await runReserved(
          caller,
          reserved,
          () => write(rejections),
          (recorded) => recorded,
        );
      } finally {
        inFlight.end(own);
      }
    },
    store: storeNext,
    stop: async () => {
      clearInterval(timer);
      await storeNext();
    },
  };
};
