import { hash } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { DatabasePool } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { findCaller } from "../../db/accounts/apiKeys.ts";
import type { AccountType } from "../../domain/accounts/accounts.ts";

/** Half of what is promised: a revoked key stops within five seconds in every process. */
const CACHED_MS = 2500;
const MAXIMUM_CACHED = 10_000;

/** Tells whose key it is, null for a key that is unknown, revoked or another interface's. */
export type Authenticate = (key: string) => Promise<Caller | null>;

/**
 * Looks keys up by their SHA-256 and remembers the known ones for a short while. Unknown ones are looked up each time,
 * so that a new key works at once.
 */
export const createAuthenticator = ({
  db,
  accountType,
  cachedMs = CACHED_MS,
}: {
  readonly db: DatabasePool;
  readonly accountType: AccountType;
  readonly cachedMs?: number;
}): Authenticate => {
  const callers = new LRUCache<string, Caller>({
    max: MAXIMUM_CACHED,
    ttl: cachedMs,
    // Concurrent requests with one key share one look-up.
    fetchMethod: async (digest) =>
      (await findCaller(db, Buffer.from(digest, "hex"), accountType)) ?? undefined,
  });
  return async (key) => (await callers.fetch(hash("sha256", key, "hex"))) ?? null;
};
