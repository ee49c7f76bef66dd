/*
 * How fast all workers together send meter events to Stripe. Each worker reserves the times of its next calls in the
 * database, so that no two of them use the same share of the rate.
 */

const MINIMUM_CALLS_PER_SECOND = 1;

/** The share of the rate that is left after Stripe has rejected calls because there were too many. */
const LOWERED_SHARE = 0.7;

/** One burst of rejections lowers the rate once. It includes calls that were reserved at the old rate. */
const LOWERING_INTERVAL_SECONDS = 1.5;

/** How much a lowered rate rises again. */
const RISE_PER_SECOND = 1.1;

/**
 * How far ahead calls are reserved: the events of a second become ready together, and what gets no call with its sealing is
 * changed once more. The lease of an event includes this time, so it must be short.
 */
const RESERVED_AHEAD_SECONDS = 1;

/** The last call begins within that time, and its interval ends after it. */
const LONGEST_RESERVATION_SECONDS = RESERVED_AHEAD_SECONDS + 1 / MINIMUM_CALLS_PER_SECOND;

export type CallRate = {
  /** The rate when it last changed. */
  readonly callsPerSecond: number;
  readonly maximumCallsPerSecond: number;
  readonly secondsSinceChange: number;
  /** How long it takes until the reserved calls have started; below 0 if they already have. */
  readonly reservedSeconds: number;
};

/** Calls that a worker may start at equal intervals. */
export type Reservation = {
  readonly calls: number;
  readonly startsInSeconds: number;
  readonly intervalSeconds: number;
};

export const currentCallsPerSecond = ({
  callsPerSecond,
  maximumCallsPerSecond,
  secondsSinceChange,
}: CallRate): number =>
  Math.min(
    maximumCallsPerSecond,
    callsPerSecond * RISE_PER_SECOND ** Math.max(0, secondsSinceChange),
  );

/**
 * Returns the times that a worker with `wanted` calls may reserve. A reservation longer than any that a worker makes was
 * made before the clock was set back, so it is ignored.
 */
export const reserveCalls = (rate: CallRate, wanted: number): Reservation => {
  const perSecond = currentCallsPerSecond(rate);
  const startsInSeconds =
    rate.reservedSeconds > LONGEST_RESERVATION_SECONDS ? 0 : Math.max(0, rate.reservedSeconds);
  const free = Math.ceil((RESERVED_AHEAD_SECONDS - startsInSeconds) * perSecond);
  return {
    calls: Math.max(0, Math.min(wanted, free)),
    startsInSeconds,
    intervalSeconds: 1 / perSecond,
  };
};

/** Returns the rate after a rejected call, or null if it has just been lowered. */
export const lowerCallRate = (rate: CallRate): number | null =>
  rate.secondsSinceChange < LOWERING_INTERVAL_SECONDS
    ? null
    : Math.max(MINIMUM_CALLS_PER_SECOND, currentCallsPerSecond(rate) * LOWERED_SHARE);
