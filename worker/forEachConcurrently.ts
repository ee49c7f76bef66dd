const MAX_CONCURRENT_CALLS = 16;

/**
 * Does the work for every item until the signal is aborted, even if it fails for some.
 * @throws Error with the first failure as its cause, after all items
 */
export const forEachConcurrently = async <Item>(
  items: readonly Item[],
  signal: AbortSignal,
  work: (item: Item) => Promise<void>,
): Promise<void> => {
  const queue = items.values();
  const failures: unknown[] = [];
  const workers = Array.from({ length: Math.min(MAX_CONCURRENT_CALLS, items.length) }, async () => {
    for (const item of queue) {
      if (signal.aborted) {
        return;
      }
      await work(item).catch((error: unknown) => failures.push(error));
    }
  });
  await Promise.all(workers);
  if (failures.length > 0) {
    throw new Error(`${failures.length} of ${items.length} workflows could not be signaled.`, {
      cause: failures[0],
    });
  }
};
