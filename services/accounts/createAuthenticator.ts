import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { DatabasePool } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { findCaller } from "../../db/accounts/apiKeys.ts";
import type { AccountType } from "../../domain/accounts/accounts.ts";

/** Half of the promise that every process rejects a revoked key within five seconds. */
export const CACHED_MS = 2500;
const MAXIMUM_CACHED = 10_000;

/** Returns the caller of a key; null if the key is unknown, revoked or of the other interface. */
export type Authenticate = (key: string) => Promise<Caller | null>;

/**
 * Looks keys up by their SHA-256 and caches known ones briefly. Unknown keys are looked up each time, so that a new key
 * works immediately.
 * @param nowMs a monotonic clock, so that setting the system clock back does not prolong the cache
 */
export const createAuthenticator = ({
  db,
  accountType,
  nowMs = () => performance.now(),
}: {
  readonly db: DatabasePool;
  readonly accountType: AccountType;
  readonly nowMs?: () => number;
}): Authenticate => {
  const callers = new LRUCache<string, Caller>({
    max: MAXIMUM_CACHED,
    ttl: CACHED_MS,
    ttlResolution: 0,
    perf: { now: nowMs },
    // Concurrent requests with one key share one lookup.
    fetchMethod: async (digest) =>
      (await findCaller(db, Buffer.from(digest, "hex"), accountType)) ?? undefined,
  });
  return async (key) => (await callers.fetch(hash("sha256", key, "hex"))) ?? null;
};
