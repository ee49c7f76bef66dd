export const MINUTE_MS = 60 * 1000;

export const HOUR_MS = 60 * MINUTE_MS;

/** A day of 24 hours, as all days in UTC are. */
export const DAY_MS = 24 * HOUR_MS;

export const daysBefore = (time: Date, days: number): Date =>
  new Date(time.getTime() - days * DAY_MS);

/** Returns unix seconds, the resolution in which usage is reported. */
export const secondOf = (time: Date): number => Math.floor(time.getTime() / 1000);
