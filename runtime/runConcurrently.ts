/**
 * Calls `run` for each item, with a limited number of calls at the same time, and returns the results in the items' order.
 * The first error stops further calls.
 */
export const runConcurrently = async <Item, Result>(
  items: readonly Item[],
  run: (item: Item) => Promise<Result>,
  { concurrency, signal }: { readonly concurrency: number; readonly signal?: AbortSignal },
): Promise<readonly Result[]> => {
  const results: Result[] = [];
  // The runners share one iterator, so each item is run once.
  const queue = items.entries();
  let hasFailed = false;
  const runNext = async (): Promise<void> => {
    for (const [index, item] of queue) {
      signal?.throwIfAborted();
      if (hasFailed) {
        return;
      }
      try {
        results[index] = await run(item);
      } catch (error) {
        hasFailed = true;
        throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: concurrency }, runNext));
  return results;
};
