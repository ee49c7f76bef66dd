import { counted } from "../counted.ts";
import { DomainError, invalidRequest } from "../errors.ts";
import type { Mode } from "./accounts.ts";

/** How much an account may do in one mode. */
export type AccountLimits = {
  /** Requests of one key; all keys of the account together may send twice as many. */
  readonly requestsPerSecond: number;
  readonly concurrentRequests: number;
  /** Units of one registration. */
  readonly countPerRequest: number;
  /** Units registered on one day, UTC; null for no limit. */
  readonly countPerDay: number | null;
  /** Records that all test keys may store; production keys have no such limit. */
  readonly testRecords: number;
};

/** The limits that an operator can set for an account. `openLists` are lists that are being sent. */
export const LIMITS = [
  "requestsPerSecond",
  "concurrentRequests",
  "openLists",
  "countPerRequest",
  "countPerDay",
  "testRecords",
] as const satisfies readonly (keyof AccountLimits | "openLists")[];

export type LimitName = (typeof LIMITS)[number];

/** What an operator has set for an account; null is the default. */
export type LimitOverrides = Readonly<Record<LimitName, number | null>>;

/** Null restores the default; absent limits stay. */
export type LimitChanges = Partial<LimitOverrides>;

/** Limits to set for one mode of an account. */
export type NewLimits = { readonly mode: Mode; readonly changes: LimitChanges };

/** Returns an account's limits: what an operator has set, and the defaults. */
export const limitsOf = (
  defaults: AccountLimits,
  overrides: LimitOverrides | null,
): AccountLimits =>
  overrides === null
    ? defaults
    : {
        requestsPerSecond: overrides.requestsPerSecond ?? defaults.requestsPerSecond,
        concurrentRequests: overrides.concurrentRequests ?? defaults.concurrentRequests,
        countPerRequest: overrides.countPerRequest ?? defaults.countPerRequest,
        countPerDay: overrides.countPerDay ?? defaults.countPerDay,
        testRecords: overrides.testRecords ?? defaults.testRecords,
      };

/** An allowance of requests that refills at a constant rate. It changes with every request. */
export type TokenBucket = { tokens: number; filledAtMs: number };

/** A bucket holds what refills in this time, so a client may send that many requests at the same time. */
export const BURST_SECONDS = 2;

/**
 * Refills the bucket to a time and returns how many whole requests it allows.
 * @param nowMs a monotonic clock
 */
export const refill = (bucket: TokenBucket, perSecond: number, nowMs: number): number => {
  const added = ((nowMs - bucket.filledAtMs) / 1000) * perSecond;
  bucket.tokens = Math.min(bucket.tokens + added, perSecond * BURST_SECONDS);
  bucket.filledAtMs = nowMs;
  return Math.floor(bucket.tokens);
};

/** Returns the error message for a registration beyond what is left of the day. */
export const dailyLimitMessage = (countPerDay: number, countToday: number): string =>
  `daily limit reached: this account may register ${counted(countPerDay, "unit")} on one day (UTC), and ${counted(Math.max(countPerDay - countToday, 0), "is", "are")} left today. ` +
  "Try again tomorrow, or ask the service's operator to raise the limit";

/**
 * Checks the units of a registration against the limits.
 * @param field the field that the client used
 * @param countToday the units that the account has registered on this day
 * @throws DomainError request_invalid if no day has room for them, daily_limit_reached if this one has not
 */
export const requireAffordableCount = (
  { countPerRequest, countPerDay }: Pick<AccountLimits, "countPerRequest" | "countPerDay">,
  { field, count, countToday }: { field: string; count: number; countToday: number },
): void => {
  if (count > countPerRequest) {
    throw invalidRequest(
      `${field}: must be at most ${countPerRequest}, this account's limit for one request`,
    );
  }
  if (countPerDay !== null && count > countPerDay) {
    throw invalidRequest(
      `${field}: must be at most ${countPerDay}, this account's limit for one day`,
    );
  }
  if (countPerDay !== null && countToday + count > countPerDay) {
    throw new DomainError("daily_limit_reached", dailyLimitMessage(countPerDay, countToday));
  }
};

/** Returns the error message for a write beyond the limit of test data. */
export const testQuotaMessage = (testRecords: number): string =>
  `test data limit reached: this account's test keys may store at most ${counted(testRecords, "record")}. Old test data ` +
  "may be deleted automatically; ask the service's operator to raise the limit";

/**
 * Checks that the account may store one more record with its test keys.
 * @param storedCount the records that they have stored
 * @throws DomainError test_quota_reached
 */
export const requireTestSpace = (testRecords: number, storedCount: number): void => {
  if (storedCount >= testRecords) {
    throw new DomainError("test_quota_reached", testQuotaMessage(testRecords));
  }
};

/** Fewer days do not show what is usual. */
const MINIMUM_DAYS = 3;
const UNUSUAL_FACTOR = 10;

/** Days with registrations before today: how many there are, and their mean. */
export type UsualDay = { readonly days: number; readonly meanCount: number };

/** Returns whether an account has registered so much more than on its usual day that an operator should look. */
export const isUnusualDay = (countToday: number, { days, meanCount }: UsualDay): boolean =>
  days >= MINIMUM_DAYS && countToday >= UNUSUAL_FACTOR * meanCount;
