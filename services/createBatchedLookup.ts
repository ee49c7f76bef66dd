import { setImmediate as afterReading } from "node:timers/promises";
import { LRUCache } from "lru-cache";
import { runForAll } from "../db/connections/connectionShares.ts";

/** Returns the value of a key; null if the key is unknown. */
export type BatchedLookup<Value> = (key: string) => Promise<Value | null>;

/** Keys are short, so they take a few megabytes at most. */
const MAXIMUM_REMEMBERED = 10_000;
const REMEMBERED_MS = 5000;

/**
 * Creates a lookup that runs one query at a time, for all keys that were requested meanwhile, and remembers unknown keys
 * for some seconds. So a flood of made-up keys costs few queries. A query starts once all requests that have arrived are
 * read, so that it looks up the keys of all of them.
 * @param find returns the values of the keys that exist
 * @param isFresh whether every query must begin after its request, so that a client reads what it has just changed; then
 *   unknown keys are not remembered either
 */
export const createBatchedLookup = <Value>(
  find: (keys: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
  { rememberedMs = REMEMBERED_MS, isFresh = false } = {},
): BatchedLookup<Value> => {
  type Lookup = PromiseWithResolvers<Value | null>;
  const unknown = new LRUCache<string, true>({ max: MAXIMUM_REMEMBERED, ttl: rememberedMs });
  let running = new Map<string, Lookup>();
  let waiting = new Map<string, Lookup>();
  let isRunning = false;

  const runBatch = async (): Promise<void> => {
    const found = await find([...running.keys()]);
    for (const [key, { resolve }] of running) {
      const value = found.get(key) ?? null;
      if (value === null && !isFresh) {
        unknown.set(key, true);
      }
      resolve(value);
    }
  };

  const run = async (): Promise<void> => {
    isRunning = true;
    while (waiting.size > 0) {
      await afterReading();
      running = waiting;
      waiting = new Map();
      try {
        await runBatch();
      } catch (error) {
        for (const { reject } of running.values()) {
          reject(error);
        }
      }
      running.clear();
    }
    isRunning = false;
  };

  return (key) => {
    if (unknown.has(key)) {
      return Promise.resolve(null);
    }
    const known = (isFresh ? undefined : running.get(key)) ?? waiting.get(key);
    if (known) {
      return known.promise;
    }
    const lookup: Lookup = Promise.withResolvers();
    waiting.set(key, lookup);
    if (!isRunning) {
      // A batch has keys of many accounts, so it must not wait for the share of the one whose request came first.
      void runForAll(run);
    }
    return lookup.promise;
  };
};
