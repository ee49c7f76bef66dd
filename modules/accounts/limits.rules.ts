import { counted } from "../../runtime/counted.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Mode } from "../records/owner.rules.ts";

/** The limits that an operator can set for an account in one mode; by default it has none. */
export const LIMITS = ["countPerRequest", "countPerDay"] as const;

export type LimitName = (typeof LIMITS)[number];

/** Units of one registration, and of one day in UTC; null for no limit. */
export type AccountLimits = Readonly<Record<LimitName, number | null>>;

/** Null removes a limit; absent ones stay. */
export type LimitChanges = Partial<AccountLimits>;

/** Limits to set for one mode of an account. */
export type NewLimits = { readonly mode: Mode; readonly changes: LimitChanges };

/** An account's limits and the units that it has registered today, UTC. */
export type LimitUse = AccountLimits & { readonly countToday: number };

/** Returns the error message for a registration beyond what is left of the day. */
export const dailyLimitMessage = (countPerDay: number, countToday: number): string =>
  `daily limit reached: this account may register ${counted(countPerDay, "unit")} on one day (UTC), and ${counted(Math.max(countPerDay - countToday, 0), "is", "are")} left today. ` +
  "Try again tomorrow, or ask the service's operator to raise the limit";

/**
 * Returns why the limits do not allow a registration, or null.
 * @param field the field that the client used
 */
export const findExcess = (
  { countPerRequest, countPerDay, countToday }: LimitUse,
  field: string,
  count: number,
): DomainError | null => {
  if (countPerRequest !== null && count > countPerRequest) {
    return invalidRequest(
      `${field}: must be at most ${countPerRequest}, this account's limit for one request`,
    );
  }
  if (countPerDay !== null && count > countPerDay) {
    return invalidRequest(
      `${field}: must be at most ${countPerDay}, this account's limit for one day`,
    );
  }
  return countPerDay !== null && count > countPerDay - countToday
    ? new DomainError("daily_limit_reached", dailyLimitMessage(countPerDay, countToday))
    : null;
};
