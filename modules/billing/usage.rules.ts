import { secondOf, DAY_MS } from "../../runtime/durations.rules.ts";

/**
 * The most units in one usage fact or meter event: Stripe accepts at most 15 digits. The CHECK usage_fact_quantity enforces
 * the same limit for facts.
 */
export const MAXIMUM_QUANTITY = 999_999_999_999_999;

export const timeOf = (second: number): Date => new Date(second * 1000);

/**
 * How long after its end a second is sealed. A transaction that commits later is not lost: its facts become another
 * meter event of the same second.
 */
const SETTLING_SECONDS = 2;

/** Returns the last second that may be sealed: it has ended, and so has the time for late commits. */
export const lastSealableSecond = (now: Date): number => secondOf(now) - 1 - SETTLING_SECONDS;

export const PROCESSORS = ["stripe", "ledger"] as const;
export type ProcessorName = (typeof PROCESSORS)[number];

/** Who bills usage, and the customer there; the built-in ledger has none. */
export type BillingTarget = {
  readonly processor: ProcessorName;
  readonly customerId: string | null;
};

/** After it, a call to the processor is given up, with an unknown outcome. */
export const CALL_TIMEOUT_MS = 10_000;

/**
 * The maximum age of usage when it is sent, in milliseconds; null without a limit. Stripe accepts timestamps of the past
 * 35 calendar days; half a day of them is a reserve for clock differences and queues.
 */
export const ACCEPTED_AGE_MS = { stripe: 34.5 * DAY_MS, ledger: null } as const;

/** Stripe's sums have been seen to lag by minutes; this is far longer. */
export const LONGEST_USAGE_LAG_MS = 15 * 60 * 1000;

/** A half-open span of unix seconds. */
export type Span = { readonly start: number; readonly end: number };

/** Splits a span at the times inside it. */
export const splitAt = ({ start, end }: Span, times: readonly number[]): readonly Span[] => {
  const inside = times.filter((time) => time > start && time < end);
  const starts = [start, ...new Set(inside.toSorted((a, b) => a - b))];
  return starts.map((from, at) => ({ start: from, end: starts[at + 1] ?? end }));
};

/** Returns the minute of a second: the resolution of the processor's sums. */
export const minuteOf = (second: number): Span => {
  const start = second - (second % 60);
  return { start, end: start + 60 };
};

/** A half-open span of time: it includes `start` but not `end`. */
export type Period = { readonly start: Date; readonly end: Date };

/** What decides, beside the time, whether usage can still be corrected. */
export type BillingCycle = {
  /** Null after the account's subscription has ended. */
  readonly cycle: Period | null;
  /** The maximum age of usage that the processor accepts; null if it accepts any. */
  readonly acceptedAgeMs: number | null;
};

const startOfCycle = (year: number, month: number, billingDay: number): Date => {
  const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
  return new Date(Date.UTC(year, month, Math.min(billingDay, lastDay)));
};

/** Returns the monthly cycle, in UTC, of a time, from the billing day, or the last day of a shorter month, at 00:00. */
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
