import type { DatabasePool } from "slonik";
import type { Caller } from "../accounts/apiKeys.sql.ts";
import type { Clock } from "../../runtime/clock.ts";
import { systemClock } from "../../runtime/clock.ts";
import { listStoresNamed } from "./stores.sql.ts";
import type { NoteKeyUse } from "../accounts/noteKeyUses.ts";
import { createAuthenticator } from "../accounts/createAuthenticator.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import { cacheLookups } from "../accounts/cacheLookups.ts";

/** The header that names the store, and its value. */
export type StoreName = { readonly kind: "domain" | "userId"; readonly name: string };

/** Why authentication failed, or the caller. */
type StoreCaller =
  | { readonly kind: "shop_unknown" | "key_invalid" | "key_of_organization" }
  | { readonly kind: "known"; readonly caller: Caller };

/** `store` is null if the name in the request cannot be one of a store. */
export type AuthenticateStore = (key: string, store: StoreName | null) => Promise<StoreCaller>;

/**
 * Creates a function that checks a key, and then the store that it is used for: without a valid key, a caller cannot find out
 * which stores exist. Stores are cached as briefly as keys.
 * @param nowMs a monotonic clock
 */
export const createStoreAuthenticator = ({
  db,
  clock = systemClock,
  noteUse,
  nowMs = () => performance.now(),
}: {
  readonly db: DatabasePool;
  readonly clock?: Clock;
  readonly noteUse?: NoteKeyUse;
  readonly nowMs?: () => number;
}): AuthenticateStore => {
  const authenticate = createAuthenticator({ db, clock, noteUse, accountType: "store", nowMs });
  /** Imported keys do not show their interface by a prefix. */
  const authenticateOrganization = createAuthenticator({
    db,
    clock,
    accountType: "organization",
    nowMs,
  });
  const findBy = (property: StoreName["kind"]) =>
    cacheLookups(
      createLookups((names) => listStoresNamed(db, property, names)),
      nowMs,
    );
  const stores = { domain: findBy("domain"), userId: findBy("userId") };
  return async (key, storeName) => {
    const caller = await authenticate(key);
    if (caller === null) {
      const isOther = (await authenticateOrganization(key)) !== null;
      return { kind: isOther ? "key_of_organization" : "key_invalid" };
    }
    const store = storeName && (await stores[storeName.kind](storeName.name));
    if (!store || store.uninstalledAt !== null) {
      return { kind: "shop_unknown" };
    }
    return caller.accountId === store.id ? { kind: "known", caller } : { kind: "key_invalid" };
  };
};
