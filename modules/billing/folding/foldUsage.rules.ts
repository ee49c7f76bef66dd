import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import type { Period } from "../billingCycle.rules.ts";
import { isWithin, monthlyCycle } from "../billingCycle.rules.ts";

/**
 * The age from which usage is settled for good. Stripe accepts usage of the past 35 days, and the nightly reconciliation
 * repeats as many; a day is for its lag and for clock differences.
 */
const SETTLED_AGE_MS = 36 * DAY_MS;

/** Returns the time before which usage must have been registered, and delivered, to be folded. */
export const latestFoldTime = (now: Date): Date => new Date(now.getTime() - SETTLED_AGE_MS);

/** @throws DomainError request_invalid if usage before a time may still change */
export const requireSettledAge = (before: Date, now: Date): void => {
  const latest = latestFoldTime(now);
  if (before > latest) {
    throw invalidRequest(
      `--before must be ${latest.toISOString()} or earlier: usage of the last 36 days may still be corrected`,
    );
  }
};

/**
 * Returns the time before which a stream's usage may be folded: the given one, but not later than the start of the billing
 * period that was current when usage began to be too young. So a period is folded once it has ended for 36 days.
 * @param account.periods those that the processor has returned for the stream; the month from the billing day counts
 * where there is none
 */
export const foldableUntil = (
  before: Date,
  { billingDay, periods }: { readonly billingDay: number; readonly periods: readonly Period[] },
  now: Date,
): Date => {
  const latest = latestFoldTime(now);
  const current = periods.filter((period) => isWithin(period, latest));
  const starts = (current.length === 0 ? [monthlyCycle(billingDay, latest)] : current).map(
    ({ start }) => start.getTime(),
  );
  return new Date(Math.min(before.getTime(), ...starts));
};

/** The units of folded hours: the stored sums, and the sums of their seconds. */
export type FoldedSums = {
  readonly registered: bigint;
  readonly refunded: bigint;
  readonly registeredBySecond: bigint;
  readonly refundedBySecond: bigint;
};

/**
 * Checks that folding has neither lost nor added units: the deleted facts add up to the deleted meter events, and the
 * hours have grown by exactly them.
 * @throws Error if not; the transaction must then be rolled back
 */
export const requireSameUnits = (
  before: FoldedSums,
  deleted: { readonly units: bigint; readonly registered: bigint; readonly refunded: bigint },
  after: FoldedSums,
): void => {
  const { units, registered, refunded } = deleted;
  if (
    registered - refunded !== units ||
    after.registered - before.registered !== registered ||
    after.refunded - before.refunded !== refunded ||
    after.registeredBySecond - before.registeredBySecond !== registered ||
    after.refundedBySecond - before.refundedBySecond !== refunded
  ) {
    throw new Error(
      `Folding would change sums: ${units} units of meter events, ${registered} registered and ${refunded} refunded units of facts, hours from ${before.registered} - ${before.refunded} to ${after.registered} - ${after.refunded}.`,
    );
  }
};

/** A transaction of this size takes tenths of a second; sealing the stream waits for it. */
const FACTS_PER_TRANSACTION = 20_000;

/** The same while bulk work yields to what clients record. */
const YIELDING_FACTS = 1000;

/** Bounds a transaction if a stream suddenly becomes busy. */
const MAXIMUM_SECONDS = 1000;

/** How many seconds of a stream the first transaction takes, before it is known how many facts a second has. */
export const FIRST_SECONDS = 20;

/** Returns how many seconds of a stream the next transaction takes, from how many facts the last one found. */
export const nextSeconds = (
  last: { readonly seconds: number; readonly facts: number },
  isYielding = false,
): number =>
  Math.min(
    MAXIMUM_SECONDS,
    Math.max(
      1,
      Math.floor(
        (last.seconds * (isYielding ? YIELDING_FACTS : FACTS_PER_TRANSACTION)) /
          Math.max(1, last.facts),
      ),
    ),
  );
