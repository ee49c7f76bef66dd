/* How fast meter events are sent to Stripe. */

const MINIMUM_CALLS_PER_SECOND = 1;

/** The share of the rate that is left after Stripe has rejected calls because there were too many. */
const LOWERED_SHARE = 0.7;

/** One burst of rejections lowers the rate once. It includes calls that were reserved at the old rate. */
const LOWERING_INTERVAL_MS = 1500;

/** How much a lowered rate rises again. */
const RISE_PER_SECOND = 1.1;

/** How far ahead calls are reserved: the events of a second become ready together. Their leases include this time. */
const RESERVED_AHEAD_MS = 1000;

/** @param maximum calls per second, to which a lowered rate rises again */
export const createCallRate = (
  maximum: number,
  monotonicMs: () => number = () => performance.now(),
) => {
  let callsPerSecond = maximum;
  let changedAtMs = -Infinity;
  let reservedUntilMs = -Infinity;
  const current = (nowMs: number): number =>
    Math.min(maximum, callsPerSecond * RISE_PER_SECOND ** ((nowMs - changedAtMs) / 1000));
  return {
    /** Returns how many calls can be reserved now. */
    free: (): number => {
      const nowMs = monotonicMs();
      const aheadMs = Math.max(0, reservedUntilMs - nowMs);
      return Math.max(0, Math.ceil((RESERVED_AHEAD_MS - aheadMs) / (1000 / current(nowMs))));
    },
    /** Reserves the next call. Returns when it may start, by the monotonic clock. */
    reserve: (): number => {
      const nowMs = monotonicMs();
      const startsAtMs = Math.max(nowMs, reservedUntilMs);
      reservedUntilMs = startsAtMs + 1000 / current(nowMs);
      return startsAtMs;
    },
    /** Lowers the rate after a rejected call. */
    lower: (): void => {
      const nowMs = monotonicMs();
      if (nowMs - changedAtMs >= LOWERING_INTERVAL_MS) {
        const lowered = Math.max(MINIMUM_CALLS_PER_SECOND, current(nowMs) * LOWERED_SHARE);
        callsPerSecond = Math.min(maximum, lowered);
        changedAtMs = nowMs;
      }
    },
  };
};
