export type ConnectionQueue = {
  /** Runs work that needs a connection as soon as the pool has one for it, in the order of the calls. */
  readonly run: <Result>(work: () => Promise<Result>) => Promise<Result>;
  readonly waitingCount: () => number;
};

/**
 * Lets work wait for a connection outside of the pool. Inside, slonik would forget it: if the connections that are being
 * opened all fail, nothing wakes what waits for one, so it would wait until the database is reachable and other work uses
 * the pool. Out here each piece of work gets its own attempt, and its own error.
 */
export const createConnectionQueue = (maximumConnections: number): ConnectionQueue => {
  const waiting: (() => void)[] = [];
  let used = 0;
  return {
    run: async (work) => {
      if (used < maximumConnections) {
        used += 1;
      } else {
        // The work that ends leaves its connection to this one.
        await new Promise<void>((resolve) => {
          waiting.push(resolve);
        });
      }
      try {
        return await work();
      } finally {
        const startNext = waiting.shift();
        if (startNext) {
          startNext();
        } else {
          used -= 1;
        }
      }
    },
    waitingCount: () => waiting.length,
  };
};
