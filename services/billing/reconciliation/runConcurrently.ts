/** Calls to the processor at the same time, far below its rate limits. */
const CONCURRENCY = 4;

/**
 * Calls `run` for each item, a few at the same time, and returns the results in the items' order. The first error stops
 * further calls.
 */
export const runConcurrently = async <Item, Result>(
  items: readonly Item[],
  run: (item: Item) => Promise<Result>,
  signal: AbortSignal,
): Promise<readonly Result[]> => {
  const results = new Map<number, Result>();
  // The runners share one iterator, so each item is run once.
  const queue = items.entries();
  let hasFailed = false;
  const runNext = async (): Promise<void> => {
    for (const [index, item] of queue) {
      signal.throwIfAborted();
      if (hasFailed) {
        return;
      }
      try {
        results.set(index, await run(item));
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: CONCURRENCY }, runNext));
  return items.map((_, index) => results.get(index)).filter((result) => result !== undefined);
};
