import { setTimeout as sleep } from "node:timers/promises";

/** Waits, but not after the signal is aborted. An aborted pause is no error. */
export const pause = (durationMs: number, signal: AbortSignal): Promise<void> =>
  sleep(durationMs, undefined, { signal }).catch(() => undefined);

/** Waits until the promise is resolved, but no longer than a duration. No timer is left. */
export const awaitAtMost = async (promise: Promise<void>, durationMs: number): Promise<void> => {
  const timer = new AbortController();
  await Promise.race([promise, pause(durationMs, timer.signal)]);
  timer.abort();
};
