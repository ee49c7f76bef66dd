import { createList, createMethods } from "./createMethods.ts";
import type { List, Methods, QueryOf, ReadNext, ResultOf } from "./createMethods.ts";
import { checkHeaderValue, createTransport } from "./createTransport.ts";
import type { CallOptions, TransportOptions } from "./createTransport.ts";
import { ImpactError } from "./errors.ts";
import { OPERATIONS } from "./generated/store.ts";
import type { components, operations } from "./generated/store.ts";

export type StoreClientOptions = TransportOptions & {
  /** The store's key, `PROD-…` or `TEST-…`. Never use it in a browser, where anyone can read it. */
  readonly apiKey: string;
  readonly shopName?: string;
  /** The store's user id, instead of its domain. */
  readonly userId?: string;
};

/** The names of the store-platform interface's objects, such as `StoreSchemas["ImpactRecord"]`. */
export type StoreSchemas = components["schemas"];

const PAGE = { limit: 100 };

/** The lists, with the query of their pages. */
const LISTS = { listTrees: PAGE, listPlastics: PAGE, listDonations: PAGE };

/** The store-platform interface. Each method is named as its operation in the API description, which explains it. */
export type StoreClient = Methods<operations, keyof typeof LISTS> & {
  /** The entries of the balance, newest first. */
  readonly listBalanceEntries: (
    query?: QueryOf<operations["balance"]>,
    options?: CallOptions,
  ) => List<ResultOf<operations["balance"]>>;
};

/** A list of this interface continues with its cursor in the given parameter. */
const continueWith =
  (parameter: string): ReadNext =>
  ({ data }, query) => {
    const page = data as { readonly has_more: boolean; readonly next_cursor: string };
    return page.has_more ? { ...query, [parameter]: page.next_cursor } : null;
  };

export const createStoreClient = ({
  apiKey,
  shopName,
  userId,
  ...options
}: StoreClientOptions): StoreClient => {
  if (shopName === undefined && userId === undefined) {
    throw new ImpactError("shopName or userId: one of them must be given");
  }
  // Names with a dash pass every proxy; some drop names with an underscore.
  const authentication = {
    "api-key": checkHeaderValue("apiKey", apiKey),
    ...(userId === undefined
      ? { "shop-name": checkHeaderValue("shopName", shopName ?? "") }
      : { "user-id": checkHeaderValue("userId", userId) }),
  };
  const send = createTransport(options, authentication);
  const continued = continueWith("after_created_at");
  return {
    ...createMethods<operations, keyof typeof LISTS>(send, OPERATIONS, LISTS, continued),
    listBalanceEntries: createList<operations["balance"]>(
      send,
      OPERATIONS.balance,
      PAGE,
      continueWith("cursor"),
    ),
  };
};
