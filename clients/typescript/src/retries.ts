/** A service that asks for a longer wait is not asked again by the call. */
export const LONGEST_RETRY_AFTER_MS = 60_000;

const FIRST_BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 8_000;

/** Statuses that say that the request had no effect. A 503 may also be a proxy's, after the service has acted. */
const NOTHING_DONE: ReadonlySet<number> = new Set([408, 429]);

/** Statuses after which a request may or may not have had its effect. */
const UNKNOWN: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/**
 * Returns whether a request may be sent again after a response.
 * @param isRepeatable whether the request has the same effect if it is sent twice
 */
export const isRetryable = (status: number, isRepeatable: boolean): boolean =>
  NOTHING_DONE.has(status) || (isRepeatable && UNKNOWN.has(status));

/**
 * Returns how long to wait after an attempt: twice as long each time, and at random, so that clients that failed together do not
 * come back together.
 * @param attempt the number of the attempt that failed, from 1
 * @param retryAfterMs what the service asked for; 0 if it asked for nothing
 */
export const backoffMs = (attempt: number, retryAfterMs: number, random = Math.random): number => {
  const longestMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (attempt - 1));
  return Math.max(retryAfterMs, longestMs / 2) + (random() * longestMs) / 2;
};

/** Reads `Retry-After`, which is a number of seconds or a date; null if there is none. */
export const readRetryAfterMs = (headers: Headers, nowMs = Date.now()): number | null => {
  const given = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d{1,9}$/u.test(given)) {
    return Number(given) * 1000;
  }
  const atMs = Date.parse(given);
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
};

/**
 * Waits.
 * @throws the signal's reason, if the caller aborts the call
 */
export const wait = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, ms);
    signal?.addEventListener("abort", end);
  });
  signal?.throwIfAborted();
};
