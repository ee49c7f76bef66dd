import type { IncomingHttpHeaders } from "node:http";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { KEY_PREFIX } from "../../modules/accounts/apiKeys.rules.ts";
import { normalizeDomain } from "../../modules/stores/stores.rules.ts";
import { cacheLookups } from "../../modules/accounts/cacheLookups.ts";
import { listStoresNamed } from "../../modules/stores/stores.sql.ts";
import { createLookups } from "../../db/batching/joinCalls.ts";
import type { AppContext } from "../context.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { HttpError } from "../http/httpError.ts";
import { decodeHeader } from "../http/parseRequest.ts";
import { valueOfAliases } from "./fields.ts";

const STANDALONE_PREFIXES = Object.values(KEY_PREFIX.organization);

/** The headers that authenticate a request, each with the spelling that proxies do not drop. */
const ALIASES = { api_key: "api-key", shop_name: "shop-name", user_id: "user-id" } as const;

/** The request headers by which responses differ. */
export const STORE_KEY_HEADERS: readonly string[] = Object.entries(ALIASES).flat();

const readHeader = (headers: IncomingHttpHeaders, name: string): string => {
  const given = headers[name];
  return typeof given === "string" ? decodeHeader(given).trim() : "";
};

/** @throws DomainError request_invalid if both spellings are given with different values */
const headerOf = (headers: IncomingHttpHeaders, name: keyof typeof ALIASES): string => {
  const alias = ALIASES[name];
  const given = { [name]: readHeader(headers, name), [alias]: readHeader(headers, alias) };
  return valueOfAliases(given) ?? "";
};

/**
 * Returns the caller of a request. Throws an error if its key is not valid for the store that it names. The store is checked
 * after the key: without a valid key, a caller cannot find out which stores exist. Stores are cached as briefly as keys.
 */
export const authenticateStore = ({
  db,
  authenticator,
}: Pick<AppContext, "db" | "authenticator">) => {
  const findBy = (property: "domain" | "userId") =>
    cacheLookups(
      createLookups((names) => listStoresNamed(db, property, names)),
      () => performance.now(),
    );
  const [findByDomain, findByUserId] = [findBy("domain"), findBy("userId")];
  return async ({ req: { headers } }: RequestContext): Promise<Caller> => {
    const key = headerOf(headers, "api_key");
    if (key === "") {
      throw new HttpError("key_missing", "the header api_key is missing");
    }
    const userId = headerOf(headers, "user_id");
    const shopName = headerOf(headers, "shop_name");
    if (userId === "" && shopName === "") {
      throw new HttpError("key_missing", "the header shop_name or user_id is missing");
    }
    const hasOtherPrefix = STANDALONE_PREFIXES.some((prefix) => key.startsWith(prefix));
    const caller = hasOtherPrefix ? null : await authenticator(key);
    // Imported keys do not show their interface by a prefix.
    if (hasOtherPrefix || caller?.accountType === "organization") {
      throw new HttpError("key_type_wrong", "standalone API keys do not work on this interface");
    }
    const store =
      caller &&
      (await (userId === ""
        ? findByDomain(normalizeDomain(shopName) ?? "")
        : findByUserId(userId)));
    if (caller && (!store || store.uninstalledAt !== null)) {
      throw new HttpError("store_unknown", "store not found or uninstalled");
    }
    if (!caller || caller.accountId !== store?.id) {
      throw new HttpError("store_key_invalid", "invalid API key for this store");
    }
    return caller;
  };
};
