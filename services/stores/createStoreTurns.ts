import { DomainError } from "../../domain/errors.ts";

/** Does the work when all earlier work of the store is done. */
export type StoreTurns = <Result>(
  accountId: string,
  work: () => Promise<Result>,
) => Promise<Result>;

/** Some seconds of work: a client that waits longer is better told to come back. */
const MAXIMUM_WAITING = 1000;

type Line = { tail: Promise<unknown>; length: number };

/**
 * Lets the writes of one store take turns within this process. The lock of its balance would make them wait anyway, but
 * each with a connection in its hand: one store's burst would leave none for the others.
 * @throws DomainError queue_full, from a turn, when too much of the store is waiting
 */
export const createStoreTurns = (maximumWaiting = MAXIMUM_WAITING): StoreTurns => {
  const lines = new Map<string, Line>();
  return async (accountId, work) => {
    const line = lines.get(accountId) ?? { tail: Promise.resolve(), length: 0 };
    if (line.length >= maximumWaiting) {
      throw new DomainError("queue_full", "too many writes of this store are waiting, try again");
    }
    lines.set(accountId, line);
    line.length += 1;
    const turn = line.tail.then(work);
    line.tail = Promise.allSettled([turn]);
    try {
      return await turn;
    } finally {
      line.length -= 1;
      if (line.length === 0) {
        lines.delete(accountId);
      }
    }
  };
};
