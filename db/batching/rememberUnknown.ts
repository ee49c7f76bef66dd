import { LRUCache } from "lru-cache";
import type { LookUp } from "./createLookups.ts";

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
