import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { DatabasePool } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { AccountType } from "../../domain/accounts/accounts.ts";
import { isExpired, isPossibleKey } from "../../domain/accounts/apiKeys.ts";
import type { Clock } from "../../domain/clock.ts";
import { systemClock } from "../../domain/clock.ts";
import { createKeyLookups } from "./createKeyLookups.ts";
import type { KeyUses } from "./createKeyUses.ts";

/** Half of the promise that every process rejects a revoked key within five seconds. */
export const CACHED_MS = 2500;
const MAXIMUM_CACHED = 10_000;

/** A client that goes on with a wrong key costs one lookup in this time. An imported key works that much later. */
export const UNKNOWN_MS = 1000;
const MAXIMUM_UNKNOWN = 10_000;

/** Returns the caller of a key; null if the key is unknown, revoked, expired or of the other interface. */
export type Authenticate = (key: string) => Promise<Caller | null>;

/**
 * Looks keys up by their SHA-256 and caches them briefly. Unknown keys have a cache of their own, so that made-up ones do
 * not displace known ones. What cannot be a key of this interface is not looked up. A
 * key expires at its time, even if it is cached.
 * @param nowMs a monotonic clock, so that setting the system clock back does not prolong the cache
 */
export const createAuthenticator = ({
  db,
  clock = systemClock,
  keyUses,
  accountType,
  nowMs = () => performance.now(),
}: {
  readonly db: DatabasePool;
  readonly clock?: Clock;
  /** Where uses are noted: when a key is looked up, which is less often than requests. */
  readonly keyUses?: Pick<KeyUses, "note">;
  readonly accountType: AccountType;
  readonly nowMs?: () => number;
}): Authenticate => {
  const options = { ttlResolution: 0, perf: { now: nowMs } };
  const callers = new LRUCache<string, Caller>({
    ...options,
    max: MAXIMUM_CACHED,
    ttl: CACHED_MS,
  });
  const unknown = new LRUCache<string, true>({
    ...options,
    max: MAXIMUM_UNKNOWN,
    ttl: UNKNOWN_MS,
  });
  const lookUp = createKeyLookups(db, accountType);
  const unlessExpired = (caller: Caller): Caller | null =>
    caller.expiresAt !== null && isExpired(caller.expiresAt, clock.now()) ? null : caller;
  return async (key) => {
    if (!isPossibleKey(key, accountType)) {
      return null;
    }
    const digest = hash("sha256", key, "hex");
    const known = callers.get(digest);
    if (known) {
      return unlessExpired(known);
    }
    if (unknown.has(digest)) {
      return null;
    }
    // Read before the lookup, as what it returns may be as old.
    const start = nowMs();
    const caller = await lookUp(digest);
    if (!caller) {
      unknown.set(digest, true, { start });
      return null;
    }
    callers.set(digest, caller, { start });
    const valid = unlessExpired(caller);
    if (valid) {
      keyUses?.note(valid);
    }
    return valid;
  };
};
