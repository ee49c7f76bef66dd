/** The time of an attempt, which also ends when the caller aborts the call. */
export type Deadline = {
  readonly signal: AbortSignal;
  /** Whether the attempt timed out, as opposed to being aborted by the caller. */
  readonly hasExpired: () => boolean;
  /** Starts the time again, from zero. */
  readonly restart: () => void;
  readonly pause: () => void;
  /** Ends whatever still uses the signal. */
  readonly end: () => void;
};

/** Starts the time of an attempt. */
export const startDeadline = (timeoutMs: number, given: AbortSignal | undefined): Deadline => {
  const controller = new AbortController();
  let expired = false;
  const expire = (): void => {
    expired = true;
    controller.abort();
  };
  let timer = setTimeout(expire, timeoutMs);
  return {
    signal: given === undefined ? controller.signal : AbortSignal.any([given, controller.signal]),
    hasExpired: () => expired,
    restart: () => {
      clearTimeout(timer);
      timer = setTimeout(expire, timeoutMs);
    },
    pause: () => clearTimeout(timer),
    end: () => {
      clearTimeout(timer);
      controller.abort();
    },
  };
};

/**
 * Waits.
 * @throws the signal's reason, if the caller aborts the call
 */
export const wait = (ms: number, signal: AbortSignal | undefined): Promise<void> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", stop);
      resolve();
    }, ms);
    const stop = (): void => {
      clearTimeout(timer);
      // oxlint-disable-next-line typescript/prefer-promise-reject-errors -- as fetch does, with the caller's own reason.
      reject(signal?.reason);
    };
    if (signal?.aborted === true) {
      stop();
    }
    signal?.addEventListener("abort", stop, { once: true });
  });
