/* How fast meter events are sent to Stripe, and how many at the same time. */

const MINIMUM_CALLS_PER_SECOND = 1;

/** The share of the rate that is left after Stripe has rejected calls because there were too many. */
const LOWERED_SHARE = 0.7;

/** One burst of rejections lowers the rate once. It includes calls that began at the old rate. */
const LOWERING_INTERVAL_MS = 1500;

const RISE_PER_SECOND = 1.1;

/** How often calls are admitted: together, because their attempts are then recorded in one statement. */
const ADMISSION_MS = 100;

/** How far ahead calls are admitted, so that a busy process which is late loses nothing of the rate. */
const AHEAD_MS = 400;

/** @param maximum calls per second, to which a lowered rate rises again */
export const createCallRate = (
  maximum: number,
  maximumRunning: number,
  monotonicMs: () => number = () => performance.now(),
) => {
  let callsPerSecond = maximum;
  let changedAtMs = -Infinity;
  let nextAtMs = -Infinity;
  let running = 0;
  const waiting: ((mayCall: boolean) => void)[] = [];
  let timer: NodeJS.Timeout | null = null;

  const current = (nowMs: number): number =>
    Math.min(maximum, callsPerSecond * RISE_PER_SECOND ** ((nowMs - changedAtMs) / 1000));

  const admit = (): void => {
    const nowMs = monotonicMs();
    nextAtMs = Math.max(nextAtMs, nowMs);
    while (waiting.length > 0 && running < maximumRunning && nextAtMs < nowMs + AHEAD_MS) {
      nextAtMs += 1000 / current(nowMs);
      running += 1;
      waiting.shift()?.(true);
    }
    timer = waiting.length === 0 ? null : setTimeout(admit, ADMISSION_MS);
  };

  return {
    /** Waits until a call may begin. Those that wait take turns. Returns false if that has ended. */
    take: (): Promise<boolean> =>
      new Promise((resolve) => {
        waiting.push(resolve);
        if (timer === null) {
          admit();
        }
      }),
    /** Gives the place of a call back, and its share of the rate if the call was not made. */
    giveBack: (wasMade: boolean): void => {
      running -= 1;
      nextAtMs -= wasMade ? 0 : 1000 / current(monotonicMs());
    },
    lower: (): void => {
      const nowMs = monotonicMs();
      if (nowMs - changedAtMs >= LOWERING_INTERVAL_MS) {
        const lowered = Math.max(MINIMUM_CALLS_PER_SECOND, current(nowMs) * LOWERED_SHARE);
        callsPerSecond = Math.min(maximum, lowered);
        changedAtMs = nowMs;
      }
    },
    end: (): void => {
      clearTimeout(timer ?? undefined);
      timer = null;
      waiting.splice(0).forEach((resolve) => resolve(false));
    },
  };
};
