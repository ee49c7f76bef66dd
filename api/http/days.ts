const DAY_MS = 86_400_000;

/** The first instant of a day, `YYYY-MM-DD`, UTC. */
export const startOfDay = (date: string): Date => new Date(`${date}T00:00:00.000Z`);

/** The first instant after a day, undefined after the last day that can be written: nothing is later. */
export const startOfNextDay = (date: string): Date | undefined =>
  date === "9999-12-31" ? undefined : new Date(startOfDay(date).getTime() + DAY_MS);
