import { setImmediate as afterReading } from "node:timers/promises";
import { runForAll } from "../../runtime/client.ts";
import { LRUCache } from "lru-cache";

/** One statement reads that many rows in a millisecond or two. */
const MAXIMUM_BATCH = 200;
/** The second one starts while the first one's response is on its way. */
const MAXIMUM_RUNNING = 2;

type Waiting<Value> = PromiseWithResolvers<Value | null>;

/** Returns the value of a name; null if the name is unknown. */
export type LookUp<Value> = (name: string) => Promise<Value | null>;

/**
 * Looks names up in batches: two statements run at the same time, and names that arrive meanwhile wait for the next one.
 * So made-up names, however many, use at most two connections. A batch starts once all requests that have arrived are
 * read, so that it has the names of all of them. Lookups of one name that wait are one lookup. One that runs is not joined:
 * its result may be older than the request.
 * @param find returns the values of the names that exist
 */
export const createLookups = <Value>(
  find: (names: readonly string[]) => Promise<ReadonlyMap<string, Value>>,
): LookUp<Value> => {
  /** In the order of arrival. */
  const waiting = new Map<string, Waiting<Value>>();
  let running = 0;

  const read = async (batch: ReadonlyMap<string, Waiting<Value>>): Promise<void> => {
    try {
      const values = await find([...batch.keys()]);
      for (const [name, { resolve }] of batch) {
        resolve(values.get(name) ?? null);
      }
    } catch (error) {
      for (const { reject } of batch.values()) {
        reject(error);
      }
    }
  };

  const runBatches = async (): Promise<void> => {
    running += 1;
    await afterReading();
    while (waiting.size > 0) {
      const batch = new Map([...waiting].slice(0, MAXIMUM_BATCH));
      for (const name of batch.keys()) {
        waiting.delete(name);
      }
      await read(batch);
      await afterReading();
    }
    running -= 1;
  };

  return (name) => {
    const known = waiting.get(name);
    if (known) {
      return known.promise;
    }
    const lookup: Waiting<Value> = Promise.withResolvers();
    waiting.set(name, lookup);
    if (running < MAXIMUM_RUNNING) {
      // A batch has names of many accounts, so it must not wait for the share of the one whose request came first.
      void runForAll(runBatches);
    }
    return lookup.promise;
  };
};

/** Names are short, so they take a few megabytes at most. */
const MAXIMUM_REMEMBERED = 10_000;
const REMEMBERED_MS = 5000;

/** Remembers unknown names for some seconds, so that a made-up name that is requested again and again costs few lookups. */
export const rememberUnknown = <Value>(
  lookUp: LookUp<Value>,
  { rememberedMs = REMEMBERED_MS } = {},
): LookUp<Value> => {
  const unknown = new LRUCache<string, true>({ max: MAXIMUM_REMEMBERED, ttl: rememberedMs });
  return async (name) => {
    if (unknown.has(name)) {
      return null;
    }
    const value = await lookUp(name);
    if (value === null) {
      unknown.set(name, true);
    }
    return value;
  };
};
