import { LRUCache } from "lru-cache";
import type { LookUp } from "../../db/batching/joinCalls.ts";

/** A command that makes keys invalid waits for it. */
export const CACHED_MS = 2000;
/** How long an unknown name is cached: a client that repeats a wrong key costs one lookup, and an imported key may work later. */
export const UNKNOWN_MS = 1000;
const MAXIMUM_CACHED = 10_000;

/**
 * Caches what many requests need for two seconds from the start of its lookup. Unknown names have a separate cache, so that
 * made-up ones do not evict those that exist.
 * @param nowMs a monotonic clock, so that setting the system clock back does not prolong the cache
 */
export const cacheLookups = <Value extends object>(
  lookUp: LookUp<Value>,
  nowMs: () => number,
): LookUp<Value> => {
  const options = {
    // With `max`, memory for all entries would be allocated now, which takes 2 ms.
    maxSize: MAXIMUM_CACHED,
    sizeCalculation: () => 1,
    ttlResolution: 0,
    perf: { now: nowMs },
  };
  const known = new LRUCache<string, Value>({ ...options, ttl: CACHED_MS });
  const unknown = new LRUCache<string, true>({ ...options, ttl: UNKNOWN_MS });
  return async (name) => {
    const cached = known.get(name);
    if (cached !== undefined) {
      return cached;
    }
    if (unknown.has(name)) {
      return null;
    }
    const start = nowMs();
    const value = await lookUp(name);
    if (value === null) {
      unknown.set(name, true, { start });
    } else {
      known.set(name, value, { start });
    }
    return value;
  };
};
