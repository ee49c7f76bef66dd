import { LRUCache } from "lru-cache";
import type { DatabasePool } from "slonik";
import type { Caller } from "./apiKeys.sql.ts";
import { digestOf, listCallers } from "./apiKeys.sql.ts";
import type { AccountType } from "../records/owner.rules.ts";
import { isExpired, isPossibleKey } from "./apiKeys.rules.ts";
import type { Clock } from "../../runtime/clock.ts";
import { systemClock } from "../../runtime/clock.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import type { KeyUses } from "./createKeyUses.ts";
import { createRefreshedCache } from "./createRefreshedCache.ts";

/** How long an unknown key is cached: a client that repeats a wrong key costs one lookup, and an imported key may work later. */
export const UNKNOWN_MS = 1000;
const MAXIMUM_UNKNOWN = 10_000;

/** Returns the caller of a key; null if the key is unknown, revoked, expired or of the other interface. */
export type Authenticate = (key: string) => Promise<Caller | null>;

/**
 * Looks keys up by their SHA-256 and caches them briefly. Unknown keys have a separate cache, so that made-up keys
 * do not evict valid ones. Text that cannot be a key of this interface is not looked up. A cached key still expires on
 * time. See createRefreshedCache for how long keys are cached.
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
  const lookUp = createLookups((digests) => listCallers(db, digests, accountType));
  const unlessExpired = (caller: Caller): Caller | null =>
    caller.expiresAt !== null && isExpired(caller.expiresAt, clock.now()) ? null : caller;
  const callers = createRefreshedCache(async (digest) => {
    const caller = await lookUp(digest);
    const valid = caller && unlessExpired(caller);
    if (valid) {
      keyUses?.note(valid);
    }
    return caller;
  }, nowMs);
  const unknown = new LRUCache<string, true>({
    max: MAXIMUM_UNKNOWN,
    ttl: UNKNOWN_MS,
    ttlResolution: 0,
    perf: { now: nowMs },
  });
  return async (key) => {
    if (!isPossibleKey(key, accountType)) {
      return null;
    }
    const digest = digestOf(key);
    const known = callers.find(digest);
    if (known !== null) {
      return unlessExpired(known);
    }
    if (unknown.has(digest)) {
      return null;
    }
    // Read before the lookup, as what it returns may be as old.
    const start = nowMs();
    const caller = await callers.read(digest);
    if (!caller) {
      unknown.set(digest, true, { start });
      return null;
    }
    return unlessExpired(caller);
  };
};
