import { AsyncLocalStorage } from "node:async_hooks";
import { LRUCache } from "lru-cache";
import type { LookUp } from "../../db/batching/joinCalls.ts";

/** From the start of the read. A command that makes keys invalid waits for it. */
export const CACHED_MS = 2000;
/** A value of this age that is used is read again, so that no request waits for it when it expires. */
const REFRESHED_MS = 1000;
/** For how long values that have this age are gathered. */
const GATHERED_MS = 250;
const MAXIMUM_CACHED = 10_000;

type Cached<Value> = {
  readonly value: Value;
  readonly readAtMs: number;
  isRefreshing: boolean;
};

export type RefreshedCache<Value> = {
  /** Returns null if the value is not cached. */
  readonly find: (name: string) => Value | null;
  /** Reads the value and caches it if there is one. */
  readonly read: LookUp<Value>;
};

/**
 * Caches what many requests need for two seconds. Values that are in use are read again before they expire,
 * many in one statement. So with thousands of active accounts, hardly a request waits for a statement of its own.
 * @param nowMs a monotonic clock, so that setting the system clock back does not prolong the cache
 */
export const createRefreshedCache = <Value>(
  lookUp: LookUp<Value>,
  nowMs: () => number,
): RefreshedCache<Value> => {
  const cache = new LRUCache<string, Cached<Value>>({
    max: MAXIMUM_CACHED,
    ttl: CACHED_MS,
    ttlResolution: 0,
    perf: { now: nowMs },
  });
  const gathered = new Set<string>();
  // The timer must not belong to the request that happens to start it.
  const outsideOfRequests = AsyncLocalStorage.snapshot();

  const read: LookUp<Value> = async (name) => {
    // Before the lookup, as what it returns may be as old.
    const readAtMs = nowMs();
    const value = await lookUp(name);
    if (value === null) {
      cache.delete(name);
    } else {
      cache.set(name, { value, readAtMs, isRefreshing: false }, { start: readAtMs });
    }
    return value;
  };

  const refreshGathered = (): void => {
    const names = [...gathered];
    gathered.clear();
    for (const name of names) {
      // If this fails, the value expires. The next request that needs it reads it, and gets the error.
      read(name).catch(() => undefined);
    }
  };

  return {
    find: (name) => {
      const cached = cache.get(name);
      if (cached === undefined) {
        return null;
      }
      if (!cached.isRefreshing && nowMs() - cached.readAtMs >= REFRESHED_MS) {
        cached.isRefreshing = true;
        if (gathered.size === 0) {
          outsideOfRequests(() => setTimeout(refreshGathered, GATHERED_MS).unref());
        }
        gathered.add(name);
      }
      return cached.value;
    },
    read,
  };
};
