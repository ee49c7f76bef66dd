/** A half-open span of time: it includes `start` but not `end`. */
export type Period = { readonly start: Date; readonly end: Date };

const startOfCycle = (year: number, month: number, billingDay: number): Date => {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return new Date(Date.UTC(year, month, Math.min(billingDay, lastDay)));
};

/**
 * Returns the monthly cycle, in UTC, that contains a time. It starts at 00:00 on the billing day, or on the last day of a
 * shorter month.
 */
export const monthlyCycle = (billingDay: number, time: Date): Period => {
  const year = time.getUTCFullYear();
  const month = time.getUTCMonth();
  const start = startOfCycle(year, month, billingDay);
  return start <= time
    ? { start, end: startOfCycle(year, month + 1, billingDay) }
    : { start: startOfCycle(year, month - 1, billingDay), end: start };
};

export const isWithin = ({ start, end }: Period, time: Date): boolean =>
  start <= time && time < end;
