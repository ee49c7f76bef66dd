const numbers = new Intl.NumberFormat("en-US");
const measures = new Intl.NumberFormat("en-US", { maximumFractionDigits: 2 });
const months = new Intl.DateTimeFormat("en-US", {
  month: "long",
  year: "numeric",
  timeZone: "UTC",
});
const days = new Intl.DateTimeFormat("en-US", { dateStyle: "medium", timeZone: "UTC" });
const instants = new Intl.DateTimeFormat("en-US", {
  dateStyle: "medium",
  timeStyle: "short",
  timeZone: "UTC",
});

export const formatNumber = (value: number): string => numbers.format(value);

export const formatMeasure = (value: number): string => measures.format(value);

/** @param month as in `2026-05` */
export const formatMonth = (month: string): string => months.format(new Date(`${month}-01T00:00Z`));

export const formatDay = (instant: Date): string => days.format(instant);

export const formatInstant = (instant: Date): string => `${instants.format(instant)} UTC`;
