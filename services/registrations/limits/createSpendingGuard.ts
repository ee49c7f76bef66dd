import type { CommonQueryMethods } from "slonik";
import type { Caller } from "../../../db/accounts/apiKeys.ts";
import type { Mode } from "../../../domain/accounts/accounts.ts";
import type { AccountLimits } from "../../../domain/accounts/limits.ts";
import { limitsOf } from "../../../domain/accounts/limits.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { DomainError } from "../../../domain/errors.ts";
import { checkItems, findExcess } from "./checkLimits.ts";
import type { LimitedItem, LimitedUse, NewRecords } from "./checkLimits.ts";
import { createDailyCounts } from "./createDailyCounts.ts";
import type { UnusualDay } from "./createDailyCounts.ts";
import { createTestQuota } from "./createTestQuota.ts";
import { createWritesInFlight } from "./createWritesInFlight.ts";
import type { WriteInFlight } from "./createWritesInFlight.ts";
import { writeOrFindOriginal } from "./writeOrFindOriginal.ts";
import type { WriteAttempt } from "./writeOrFindOriginal.ts";

/** How often this process stores its counts and reads those of other processes. */
const STORE_INTERVAL_MS = 2000;

type LimitedCaller = Pick<Caller, "accountId" | "mode" | "limits">;

const NOTHING: NewRecords = { newRecords: 0, newUnits: 0 };

export type SpendingGuard = {
  /**
   * Runs a registration if the account's limits allow its units. Otherwise only a repeated request gets its original
   * response, which bills nothing.
   * @throws DomainError request_invalid, daily_limit_reached or test_quota_reached beyond a limit, and what `write` throws
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
   * Returns what an earlier write with the idempotency key has recorded, or null. For a write that is refused whatever the
   * limits are: it uses nothing of them, and waits if the earlier one is in flight.
   */
  readonly findOriginal: <Result>(
    caller: LimitedCaller,
    attempt: Omit<WriteAttempt<Result>, "write">,
  ) => Promise<Result | null>;
  /**
   * Runs a batch. Items are compared with the limits in their order; those that are refused or exceed one are rejected,
   * except repeated ones, which bill nothing.
   * @param attempt.write records the items without those that are rejected, by their indices, or throws. Before it rejects
   * others, it awaits earlier writes with their keys by `awaitEarlier`, and looks them up
   * @throws what `write` throws
   */
  readonly writeBatch: <Result extends NewRecords>(
    caller: LimitedCaller,
    items: readonly LimitedItem[],
    attempt: {
      readonly findKnownKeys: () => Promise<ReadonlySet<string>>;
      readonly write: (
        rejections: ReadonlyMap<number, DomainError>,
        awaitEarlier: () => Promise<void>,
      ) => Promise<Result>;
    },
  ) => Promise<Result>;
  /** Stores the counts of this process. */
  readonly store: () => Promise<void>;
  /** Stores the counts for the last time. */
  readonly stop: () => Promise<void>;
};

/**
 * Checks what accounts record against their limits, in memory: each process adds its counts to the database every two
 * seconds and reads the sums, or reads them before a write if it has not since. So a day can exceed its limit by what other
 * processes accept in four seconds, and by what a process that was killed had not stored.
 *
 * A write that is refused or beyond a limit is not decided while an earlier one with its idempotency key is in flight in
 * this process. If it repeats that one, it gets the recorded original; if that one fails, its units are free again. Other
 * writes, and those without a key, cannot be recorded by an earlier one, so they are rejected immediately.
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
  const dailyCounts = createDailyCounts({ db, clock, onUnusualDay });
  const testQuota = createTestQuota({ db });
  const inFlight = createWritesInFlight();

  const isDayUnread = (caller: LimitedCaller): boolean =>
    limitsOf(defaults[caller.mode], caller.limits).countPerDay !== null &&
    !dailyCounts.isCurrent(caller);

  /** Returns whether a limit needs counts that must be read first. Otherwise a write begins without waiting. */
  const isUnread = (caller: LimitedCaller): boolean =>
    !testQuota.isKnown(caller) || isDayUnread(caller);

  /** Reads the stored counts that limits need. */
  const readStored = async (caller: LimitedCaller): Promise<void> => {
    while (!testQuota.isKnown(caller)) {
      await testQuota.read(caller);
    }
    // Another day may begin meanwhile.
    while (isDayUnread(caller)) {
      await dailyCounts.read(caller);
    }
  };

  /** Returns what the account uses of its limits, with what its writes in flight have reserved. */
  const readUse = (caller: LimitedCaller): LimitedUse => ({
    mode: caller.mode,
    limits: limitsOf(defaults[caller.mode], caller.limits),
    used: {
      newUnits: dailyCounts.readCount(caller),
      newRecords: testQuota.readCount(caller),
    },
  });

  /** Runs a write that the limits allow. Meanwhile what it may record counts as used. */
  const runReserved = async <Result>(
    caller: LimitedCaller,
    reserved: NewRecords,
    write: () => Promise<Result>,
    recordedBy: (result: Result) => NewRecords,
  ): Promise<Result> => {
    const endUnits = dailyCounts.reserve(caller, reserved.newUnits);
    const endRecords = testQuota.reserve(caller, reserved.newRecords);
    let recorded = NOTHING;
    try {
      const result = await write();
      recorded = recordedBy(result);
      return result;
    } finally {
      endUnits(recorded.newUnits);
      endRecords(recorded.newRecords);
    }
  };

  /** Runs a write that others with one of its idempotency keys can wait for. */
  const runTracked = async <Result>(
    caller: LimitedCaller,
    keys: readonly (string | null)[],
    write: (own: WriteInFlight) => Promise<Result>,
  ): Promise<Result> => {
    const own = inFlight.begin(
      caller,
      keys.flatMap((key) => key ?? []),
    );
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
    { write, findOriginal }: Omit<WriteAttempt<Result>, "idempotencyKey">,
  ): Promise<Result> => {
    if (isUnread(caller)) {
      await readStored(caller);
    }
    let excess = findExcess(readUse(caller), units);
    if (excess !== null) {
      await inFlight.awaitEarlier(own);
      await readStored(caller);
      excess = findExcess(readUse(caller), units);
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

  let storing: Promise<void> = Promise.resolve();
  const storeNext = (): Promise<void> => {
    storing = storing.then(dailyCounts.store).then(testQuota.store).catch(onError);
    return storing;
  };
  const timer = setInterval(() => void storeNext(), STORE_INTERVAL_MS);
  timer.unref();

  return {
    register: (caller, units, attempt) =>
      runTracked(caller, [attempt.idempotencyKey], (own) => runOne(caller, own, units, attempt)),
    write: (caller, attempt) =>
      runTracked(caller, [attempt.idempotencyKey], (own) => {
        const write = () => writeOrFindOriginal(inFlight, own, attempt);
        // With production keys, only units are limited.
        return caller.mode === "live"
          ? write()
          : runOne(caller, own, { field: "count", count: null }, { ...attempt, write });
      }),
    findOriginal: (caller, { idempotencyKey, findOriginal }) =>
      runTracked(caller, [idempotencyKey], async (own) => {
        await inFlight.awaitEarlier(own);
        return findOriginal();
      }),
    writeBatch: (caller, items, { findKnownKeys, write }) =>
      runTracked(
        caller,
        items.map(({ idempotencyKey }) => idempotencyKey),
        async (own) => {
          if (isUnread(caller)) {
            await readStored(caller);
          }
          let checked = checkItems(readUse(caller), items, new Set());
          if (checked.rejections.size > 0) {
            await inFlight.awaitEarlier(own);
            testQuota.noteRejection(caller);
            const knownKeys = await findKnownKeys();
            await readStored(caller);
            checked = checkItems(readUse(caller), items, knownKeys);
          }
          const { rejections, accepted } = checked;
          return runReserved(
            caller,
            accepted,
            () => write(rejections, () => inFlight.awaitEarlier(own)),
            (recorded) => recorded,
          );
        },
      ),
    store: storeNext,
    stop: async () => {
      clearInterval(timer);
      await storeNext();
    },
  };
};
