import { counted } from "../../runtime/counted.rules.ts";
import { DomainError, invalidRequest } from "../../runtime/errors.rules.ts";
import type { Mode } from "../records/owner.rules.ts";

/** The limit that an operator sets for one mode of an account: units of one day in UTC. Null removes it. */
export type NewLimit = { readonly mode: Mode; readonly countPerDay: number | null };

/** An account's limit of a day and the units that it has registered today, UTC. */
export type LimitUse = { readonly countPerDay: number; readonly countToday: number };

export const dailyLimitMessage = (countPerDay: number, countToday: number): string =>
  `daily limit reached: this account may register ${counted(countPerDay, "unit")} on one day (UTC), and ${counted(Math.max(countPerDay - countToday, 0), "is", "are")} left today. ` +
  "Try again tomorrow, or ask the service's operator to raise the limit";

/**
 * Returns why the limit does not allow a registration, or null.
 * @param field the field that the client used
 */
export const findExcess = ({ countPerDay, countToday }: LimitUse, field: string, count: number) => {
  if (count > countPerDay) {
    return invalidRequest(
      `${field}: must be at most ${countPerDay}, this account's limit for one day`,
    );
  }
  return count > countPerDay - countToday
    ? new DomainError("daily_limit_reached", dailyLimitMessage(countPerDay, countToday))
    : null;
};
