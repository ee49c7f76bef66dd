import { setTimeout as sleep } from "node:timers/promises";

/** Waits, but not after the signal is aborted. Returns false if it is. */
export const pause = (durationMs: number, signal: AbortSignal): Promise<boolean> =>
  sleep(durationMs, true, { signal }).catch(() => false);

/** Resolves with the reason when the next signal arrives, or the parent process exits that has forked this one. */
export const shutdownRequested = (): Promise<string> =>
  new Promise((resolve) => {
    for (const event of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(event, resolve);
    }
    process.on("disconnect", () => resolve("the parent process exited"));
  });

/**
 * Returns the result of the work if it finishes in time. The work itself is not cancelled.
 * @throws Error if it does not
 */
export const withTimeout = <Result>(durationMs: number, work: Promise<Result>): Promise<Result> =>
  Promise.race([
    work,
    sleep(durationMs, undefined, { ref: false }).then(() => {
      throw new Error("no response in time");
    }),
  ]);
