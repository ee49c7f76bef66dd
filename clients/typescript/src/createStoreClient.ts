import { createCaller } from "./createCaller.ts";
import type { Caller, ExportableList, ReadNext, WriteOptions } from "./createCaller.ts";
import { createTransport } from "./createTransport.ts";
import type { CallOptions, TransportOptions } from "./createTransport.ts";
import { ImpactError } from "./errors.ts";
import { OPERATIONS } from "./generated/store.ts";
import type { components, operations } from "./generated/store.ts";
import type { BodyOf, QueryOf, ResultOf } from "./operationTypes.ts";
import { checkHeaderValue } from "./parseOptions.ts";

export type StoreClientOptions = TransportOptions & {
  /** The store's key, `PROD-…` or `TEST-…`. Never use it in a browser, where anyone can read it. */
  readonly apiKey: string;
  /** The store's domain. */
  readonly shopName?: string;
  /** The store's user id, instead of its domain. */
  readonly userId?: string;
};

type Query<Id extends keyof operations> = QueryOf<operations[Id]>;
type Result<Id extends keyof operations> = ResultOf<operations[Id]>;

/** The names of the store-platform interface's objects, such as `StoreSchemas["ImpactRecord"]`. */
export type StoreSchemas = components["schemas"];

type Read<Id extends keyof operations> = (
  query?: Query<Id>,
  options?: CallOptions,
) => Promise<Result<Id>>;

type Write<Id extends keyof operations> = (
  body: BodyOf<operations[Id]>,
  options?: WriteOptions,
) => Promise<Result<Id>>;

type ReadList<Id extends keyof operations> = (
  query?: Query<Id>,
  options?: CallOptions,
) => ExportableList<Result<Id>>;

type ActOn<Id extends keyof operations> = (
  id: string,
  options?: CallOptions,
) => Promise<Result<Id>>;

type ChangeEndpoint<Id extends keyof operations> = (
  id: string,
  body: BodyOf<operations[Id]>,
  options?: CallOptions,
) => Promise<Result<Id>>;

type ActOnDelivery<Id extends keyof operations> = (
  id: string,
  deliveryId: string,
  options?: CallOptions,
) => Promise<Result<Id>>;

/** The store-platform interface. Each method is named as its operation in the API description, which explains it. */
export type StoreClient = Pick<Caller<operations>, "call"> & {
  readonly verifyKey: (options?: CallOptions) => Promise<Result<"verifyKey">>;
  readonly plantTrees: Write<"plantTrees">;
  readonly rescuePlastics: Write<"rescuePlastics">;
  readonly donate: Write<"donate">;
  readonly refund: Write<"refund">;
  readonly listTrees: ReadList<"listTrees">;
  readonly listPlastics: ReadList<"listPlastics">;
  readonly listDonations: ReadList<"listDonations">;
  /** The balance, and its newest entries. */
  readonly balance: Read<"balance">;
  /** The entries of the balance, newest first. */
  readonly listBalanceEntries: ReadList<"balance">;
  readonly searchCharities: Read<"searchCharities">;
  readonly impactStats: Read<"impactStats">;
  readonly evidence: Read<"evidence">;
  readonly readCertificateUrl: (
    query: Query<"readCertificateUrl">,
    options?: CallOptions,
  ) => Promise<Result<"readCertificateUrl">>;
  readonly readOrderCertificateUrl: (
    query: Query<"readOrderCertificateUrl">,
    options?: CallOptions,
  ) => Promise<Result<"readOrderCertificateUrl">>;
  readonly createWebhookEndpoint: Write<"createWebhookEndpoint">;
  /** Like the other changes of webhook endpoints, repeated only after a response that says that nothing was done. */
  readonly updateWebhookEndpoint: ChangeEndpoint<"updateWebhookEndpoint">;
  readonly rotateWebhookSecret: (
    id: string,
    body?: BodyOf<operations["rotateWebhookSecret"]>,
    options?: CallOptions,
  ) => Promise<Result<"rotateWebhookSecret">>;
  readonly recoverWebhookEvents: ChangeEndpoint<"recoverWebhookEvents">;
  readonly pingWebhookEndpoint: ActOn<"pingWebhookEndpoint">;
  readonly deleteWebhookEndpoint: ActOn<"deleteWebhookEndpoint">;
  readonly readWebhookEndpoint: ActOn<"readWebhookEndpoint">;
  readonly listWebhookEndpoints: (options?: CallOptions) => Promise<Result<"listWebhookEndpoints">>;
  /** One page. `starting_after` is the id of the last delivery of the page before. */
  readonly listWebhookDeliveries: (
    id: string,
    query?: Query<"listWebhookDeliveries">,
    options?: CallOptions,
  ) => Promise<Result<"listWebhookDeliveries">>;
  readonly retryWebhookDelivery: ActOnDelivery<"retryWebhookDelivery">;
};

const PAGE = { limit: 100 };

/** A list of this interface continues with its cursor in the given parameter. */
const continueWith =
  (parameter: string): ReadNext =>
  ({ data }, query) => {
    const { has_more: hasMore, next_cursor: cursor } = data as {
      readonly has_more: boolean;
      readonly next_cursor: string;
    };
    return hasMore ? { ...query, [parameter]: cursor } : null;
  };

const storeHeader = (
  shopName: string | undefined,
  userId: string | undefined,
): Record<string, string> => {
  if (userId !== undefined) {
    return { "user-id": checkHeaderValue("userId", userId) };
  }
  if (shopName === undefined) {
    throw new ImpactError("shopName or userId: one of them must be given");
  }
  return { "shop-name": checkHeaderValue("shopName", shopName) };
};

/** Creates a client of the store-platform interface, for one store. */
export const createStoreClient = ({
  apiKey,
  shopName,
  userId,
  ...options
}: StoreClientOptions): StoreClient => {
  // Names with a dash pass every proxy; some drop names with an underscore.
  const authentication = {
    "api-key": checkHeaderValue("apiKey", apiKey),
    ...storeHeader(shopName, userId),
  };
  const transport = createTransport(options, authentication, ["error", "code"]);
  const { call, list } = createCaller<operations>(
    transport,
    OPERATIONS,
    continueWith("after_created_at"),
  );
  const ledger = createCaller<operations>(transport, OPERATIONS, continueWith("cursor"));

  return {
    call,
    verifyKey: (own) => call("verifyKey", {}, own),
    plantTrees: (body, own) => call("plantTrees", { body }, own),
    rescuePlastics: (body, own) => call("rescuePlastics", { body }, own),
    donate: (body, own) => call("donate", { body }, own),
    refund: (body, own) => call("refund", { body }, own),
    listTrees: (query, own) => list("listTrees", query, own, PAGE),
    listPlastics: (query, own) => list("listPlastics", query, own, PAGE),
    listDonations: (query, own) => list("listDonations", query, own, PAGE),
    balance: (query = {}, own) => call("balance", { query }, own),
    listBalanceEntries: (query, own) => ledger.list("balance", query, own, PAGE),
    searchCharities: (query = {}, own) => call("searchCharities", { query }, own),
    impactStats: (query = {}, own) => call("impactStats", { query }, own),
    evidence: (query = {}, own) => call("evidence", { query }, own),
    readCertificateUrl: (query, own) => call("readCertificateUrl", { query }, own),
    readOrderCertificateUrl: (query, own) => call("readOrderCertificateUrl", { query }, own),
    createWebhookEndpoint: (body, own) => call("createWebhookEndpoint", { body }, own),
    updateWebhookEndpoint: (id, body, own) =>
      call("updateWebhookEndpoint", { path: { id }, body }, own),
    rotateWebhookSecret: (id, body = {}, own) =>
      call("rotateWebhookSecret", { path: { id }, body }, own),
    recoverWebhookEvents: (id, body, own) =>
      call("recoverWebhookEvents", { path: { id }, body }, own),
    pingWebhookEndpoint: (id, own) => call("pingWebhookEndpoint", { path: { id } }, own),
    deleteWebhookEndpoint: (id, own) => call("deleteWebhookEndpoint", { path: { id } }, own),
    readWebhookEndpoint: (id, own) => call("readWebhookEndpoint", { path: { id } }, own),
    listWebhookEndpoints: (own) => call("listWebhookEndpoints", {}, own),
    listWebhookDeliveries: (id, query = {}, own) =>
      call("listWebhookDeliveries", { path: { id }, query }, own),
    retryWebhookDelivery: (id, deliveryId, own) =>
      call("retryWebhookDelivery", { path: { id, delivery_id: deliveryId } }, own),
  };
};
