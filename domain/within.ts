/** What was asked has not answered in time. */
export class NoAnswerError extends Error {
  override readonly name = "NoAnswerError";

  constructor() {
    super("no answer in time");
  }
}

/**
 * What the work comes to, where it does before the signal aborts. Nothing here ends the work itself.
 * @throws NoAnswerError when the signal has aborted first
 */
export const within = async <Result>(
  signal: AbortSignal,
  work: Promise<Result>,
): Promise<Result> => {
  const late = new Promise<never>((_resolve, reject) => {
    const refuse = (): void => reject(new NoAnswerError());
    if (signal.aborted) {
      refuse();
    }
    signal.addEventListener("abort", refuse, { once: true });
  });
  return Promise.race([work, late]);
};
