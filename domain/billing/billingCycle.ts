/** A half-open span of time: `start` belongs to it, `end` does not. */
export type Period = { readonly start: Date; readonly end: Date };

const startOfCycle = (year: number, month: number, billingDay: number): Date => {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return new Date(Date.UTC(year, month, Math.min(billingDay, lastDay)));
};

/**
 * The monthly cycle, in UTC, that holds the instant. It starts on the billing day at 00:00, or on the month's last day
 * where the month is shorter.
 */
export const monthlyCycle = (billingDay: number, instant: Date): Period => {
  const year = instant.getUTCFullYear();
  const month = instant.getUTCMonth();
  const start = startOfCycle(year, month, billingDay);
  return start <= instant
    ? { start, end: startOfCycle(year, month + 1, billingDay) }
    : { start: startOfCycle(year, month - 1, billingDay), end: start };
};

export const isWithin = ({ start, end }: Period, instant: Date): boolean =>
  start <= instant && instant < end;
