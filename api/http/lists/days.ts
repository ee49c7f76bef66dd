import { DAY_MS } from "../../../runtime/durations.rules.ts";

/** Returns the start of a day, `YYYY-MM-DD`, in UTC. */
export const startOfDay = (date: string): Date => new Date(`${date}T00:00:00.000Z`);

/** Returns the start of the day after; undefined for 9999-12-31, because no later day can be written. */
export const startOfNextDay = (date: string): Date | undefined =>
  date === "9999-12-31" ? undefined : new Date(startOfDay(date).getTime() + DAY_MS);

/** Returns the times from the start of the first day to the end of the last; either may be open. */
export const rangeOfDays = (
  first: string | undefined,
  last: string | undefined,
): { readonly from?: Date; readonly until?: Date } => {
  const until = last === undefined ? undefined : startOfNextDay(last);
  return {
    ...(first === undefined ? {} : { from: startOfDay(first) }),
    ...(until === undefined ? {} : { until }),
  };
};
