import { setTimeout as sleep } from "node:timers/promises";

/** Waits, but not after the signal is aborted. An aborted pause is no error. */
export const pause = (durationMs: number, signal: AbortSignal): Promise<void> =>
  sleep(durationMs, undefined, { signal }).catch(() => undefined);

/** Resolves with the reason when the next signal arrives, or the parent process exits that has forked this one. */
export const shutdownRequested = (): Promise<string> =>
  new Promise((resolve) => {
    for (const event of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(event, resolve);
    }
    process.on("disconnect", () => resolve("the parent process exited"));
  });

/** The work did not finish in time. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";

  constructor() {
    super("no response in time");
  }
}

/**
 * Returns the result of the work if it finishes before the signal aborts. The work itself is not cancelled.
 * @throws TimeoutError when the signal aborts first
 */
export const withTimeout = async <Result>(
  signal: AbortSignal,
  work: Promise<Result>,
): Promise<Result> => {
  const timeout = Promise.withResolvers<never>();
  const onAbort = (): void => timeout.reject(new TimeoutError());
  signal.addEventListener("abort", onAbort, { once: true });
  return Promise.race([
    work,
    signal.aborted ? Promise.reject(new TimeoutError()) : timeout.promise,
  ]);
};
