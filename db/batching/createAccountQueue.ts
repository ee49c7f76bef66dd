/** Runs the work after all earlier work of the same account. */
export type AccountQueue = <Result>(
  accountId: string,
  work: () => Promise<Result>,
) => Promise<Result>;

/**
 * Creates a queue that runs the writes of each account one after the other within this process. They would wait for the
 * same rows anyway, but each with a database connection: one account's burst would leave none for the others.
 */
export const createAccountQueue = (): AccountQueue => {
  const queues = new Map<string, { tail: Promise<unknown>; length: number }>();
  return async (accountId, work) => {
    const queue = queues.get(accountId) ?? { tail: Promise.resolve(), length: 0 };
    queues.set(accountId, queue);
    queue.length += 1;
    const result = queue.tail.then(work);
    queue.tail = Promise.allSettled([result]);
    try {
      return await result;
    } finally {
      queue.length -= 1;
      if (queue.length === 0) {
        queues.delete(accountId);
      }
    }
  };
};
