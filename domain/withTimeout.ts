/** What was asked has not answered in time. */
export class TimeoutError extends Error {
  override readonly name = "TimeoutError";

  constructor() {
    super("no answer in time");
  }
}

/**
 * What the work comes to, where it does before the signal aborts. Nothing here ends the work itself.
 * @throws TimeoutError when the signal has aborted first
 */
export const withTimeout = async <Result>(
  signal: AbortSignal,
  work: Promise<Result>,
): Promise<Result> => {
  const late = new Promise<never>((_resolve, reject) => {
    const refuse = (): void => reject(new TimeoutError());
    if (signal.aborted) {
      refuse();
    }
    signal.addEventListener("abort", refuse, { once: true });
  });
  return Promise.race([work, late]);
};
