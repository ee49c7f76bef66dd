import { runForAll } from "../pools/connectionShares.ts";

/** Accounts whose turn comes one after the other. */
export type Lane<Queue> = {
  readonly add: (queue: Queue) => void;
  readonly remove: (queue: Queue) => void;
  /** Null while nothing is being written. */
  readonly written: () => Promise<void> | null;
};

const nextLoopIteration = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/**
 * Writes one batch after the other as long as accounts have entries.
 * @param writeNext takes accounts out of the set, and writes what they have
 */
export const createLane = <Queue>(writeNext: (turns: Set<Queue>) => Promise<void>): Lane<Queue> => {
  const turns = new Set<Queue>();
  let written: Promise<void> | null = null;
  const writeAll = async (): Promise<void> => {
    // Requests that this iteration of the event loop still reads join the first batch.
    await nextLoopIteration();
    while (turns.size > 0) {
      await writeNext(turns);
      if (turns.size === 0) {
        // Requests that arrive while the last responses are sent are written as well.
        await nextLoopIteration();
      }
    }
    written = null;
  };
  return {
    add: (queue) => {
      turns.add(queue);
      written ??= runForAll(writeAll);
    },
    remove: (queue) => {
      turns.delete(queue);
    },
    written: () => written,
  };
};
