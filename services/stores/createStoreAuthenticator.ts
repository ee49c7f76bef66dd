import { LRUCache } from "lru-cache";
import type { DatabasePool } from "slonik";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { Store } from "../../db/stores/stores.ts";
import { findStoreByDomain, findStoreByUserId } from "../../db/stores/stores.ts";
import { createAuthenticator } from "../accounts/createAuthenticator.ts";

/** Half of what is promised: an uninstalled store is closed within five seconds in every process. */
const CACHED_MS = 2500;
const MAXIMUM_CACHED = 10_000;

/** How a client names its store. */
export type StoreName = { readonly kind: "domain" | "userId"; readonly name: string };

/** Why a client may not pass, or who it is. The store's balance may be some seconds old. */
type StoreCaller =
  | { readonly kind: "shop_unknown" | "key_invalid" }
  | { readonly kind: "known"; readonly caller: Caller; readonly store: Store };

export type AuthenticateStore = (key: string, store: StoreName) => Promise<StoreCaller>;

/** Tells whether a key opens a store that is installed; known keys and stores are remembered for a short while. */
export const createStoreAuthenticator = ({
  db,
  cachedMs = CACHED_MS,
}: {
  readonly db: DatabasePool;
  readonly cachedMs?: number;
}): AuthenticateStore => {
  const authenticate = createAuthenticator({ db, accountType: "store", cachedMs });
  const stores = new LRUCache<string, Store, StoreName>({
    max: MAXIMUM_CACHED,
    ttl: cachedMs,
    fetchMethod: async (_cacheKey, _stale, { context: { kind, name } }) => {
      const find = kind === "domain" ? findStoreByDomain : findStoreByUserId;
      return (await find(db, name)) ?? undefined;
    },
  });
  return async (key, storeName) => {
    const store = await stores.fetch(`${storeName.kind}/${storeName.name}`, { context: storeName });
    if (!store || store.uninstalledAt !== null) {
      return { kind: "shop_unknown" };
    }
    const caller = await authenticate(key);
    return caller?.accountId === store.id
      ? { kind: "known", caller, store }
      : { kind: "key_invalid" };
  };
};
