import type { IncomingHttpHeaders } from "node:http";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { KEY_PREFIX } from "../../modules/accounts/apiKeys.rules.ts";
import { normalizeDomain } from "../../modules/stores/stores.rules.ts";
import type {
  AuthenticateStore,
  StoreName,
} from "../../modules/stores/createStoreAuthenticator.ts";
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
  const names = [name, ALIASES[name]];
  return (
    valueOfAliases(Object.fromEntries(names.map((each) => [each, readHeader(headers, each)]))) ?? ""
  );
};

/** Returns the store that the headers name; null if shop_name is not a domain. */
const storeNameOf = (headers: IncomingHttpHeaders): StoreName | null => {
  const userId = headerOf(headers, "user_id");
  const shopName = headerOf(headers, "shop_name");
  if (userId !== "") {
    return { kind: "userId", name: userId };
  }
  if (shopName === "") {
    throw new HttpError("key_missing", "the header shop_name or user_id is missing");
  }
  const domain = normalizeDomain(shopName);
  return domain === null ? null : { kind: "domain", name: domain };
};

const wrongType = (): HttpError =>
  new HttpError("key_type_wrong", "standalone API keys do not work on this interface");

/** Returns the caller of a request. Throws an error if its key is not valid for the store that it names. */
export const authenticateStore =
  (authenticate: AuthenticateStore) =>
  async ({ req: { headers } }: RequestContext): Promise<Caller> => {
    const key = headerOf(headers, "api_key");
    if (key === "") {
      throw new HttpError("key_missing", "the header api_key is missing");
    }
    const storeName = storeNameOf(headers);
    if (STANDALONE_PREFIXES.some((prefix) => key.startsWith(prefix))) {
      throw wrongType();
    }
    const result = await authenticate(key, storeName);
    if (result.kind === "key_of_organization") {
      throw wrongType();
    }
    if (result.kind !== "known") {
      throw result.kind === "key_invalid"
        ? new HttpError("store_key_invalid", "invalid API key for this store")
        : new HttpError("store_unknown", "store not found or uninstalled");
    }
    return result.caller;
  };
