import { DomainError } from "../../domain/errors.ts";

/** Runs the work after all earlier work of the same account. */
export type AccountQueue = <Result>(
  accountId: string,
  work: () => Promise<Result>,
) => Promise<Result>;

/** Takes the database a few seconds. A client that would wait longer should retry later. */
const MAXIMUM_WAITING = 1000;

/**
 * Creates a queue that runs the writes of each account one after the other within this process. They would wait for the
 * same rows anyway, but each with a database connection: one account's burst would leave none for the others.
 * @throws DomainError queue_full, from the queue, if too many writes of the account are waiting
 */
export const createAccountQueue = (maximumWaiting = MAXIMUM_WAITING): AccountQueue => {
  const queues = new Map<string, { tail: Promise<unknown>; length: number }>();
  return async (accountId, work) => {
    const queue = queues.get(accountId) ?? { tail: Promise.resolve(), length: 0 };
    if (queue.length >= maximumWaiting) {
      throw new DomainError("queue_full", "too many writes of this account are waiting, try again");
    }
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
