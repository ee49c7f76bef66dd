import { DomainError } from "../domain/errors.ts";

/** Runs work when it is its owner's turn. */
export type Turns = <Result>(owner: string, work: () => Promise<Result>) => Promise<Result>;

/** Per owner. A client that would wait longer should retry later. */
const MAXIMUM_WAITING = 100;
const MAXIMUM_WAIT_MS = 10_000;

const busy = (): DomainError =>
  new DomainError("queue_full", "too many requests that read many records are waiting, try again");

/**
 * Shares connections between owners. Owners with waiting work take turns, and one owner never has the last connection,
 * so that others wait for one piece of work and not for all that an owner has sent.
 * @throws DomainError queue_full, from the turns, if too much work of the owner waits or it has waited too long
 */
export const createTurns = (
  connections: number,
  { maximumWaiting = MAXIMUM_WAITING, maximumWaitMs = MAXIMUM_WAIT_MS } = {},
): Turns => {
  const connectionsPerOwner = Math.max(1, connections - 1);
  /** In the order of their turns. An owner without waiting work is absent. */
  const waiting = new Map<string, Set<() => void>>();
  const running = new Map<string, number>();
  let free = connections;

  const startWaiting = (): void => {
    for (const [owner, starts] of waiting) {
      const [start] = starts;
      if (free === 0) {
        return;
      }
      if (start !== undefined && (running.get(owner) ?? 0) < connectionsPerOwner) {
        free -= 1;
        running.set(owner, (running.get(owner) ?? 0) + 1);
        starts.delete(start);
        waiting.delete(owner);
        if (starts.size > 0) {
          // The owner's next turn comes after those of the others; the loop visits it again.
          waiting.set(owner, starts);
        }
        start();
      }
    }
  };

  const takeTurn = (owner: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const starts = waiting.get(owner) ?? new Set();
      if (starts.size >= maximumWaiting) {
        reject(busy());
        return;
      }
      const start = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        starts.delete(start);
        if (starts.size === 0) {
          waiting.delete(owner);
        }
        reject(busy());
      }, maximumWaitMs);
      waiting.set(owner, starts.add(start));
      startWaiting();
    });

  const endTurn = (owner: string): void => {
    free += 1;
    const left = (running.get(owner) ?? 0) - 1;
    if (left > 0) {
      running.set(owner, left);
    } else {
      running.delete(owner);
    }
    startWaiting();
  };

  return async (owner, work) => {
    await takeTurn(owner);
    try {
      return await work();
    } finally {
      endTurn(owner);
    }
  };
};
