import { createCaller } from "./createCaller.ts";
import type { Caller, ExportableList, List, WriteOptions } from "./createCaller.ts";
import { createTransport } from "./createTransport.ts";
import type { CallOptions, TransportOptions } from "./createTransport.ts";
import { followEvents } from "./followEvents.ts";
import type { FollowOptions } from "./followEvents.ts";
import { OPERATIONS } from "./generated/standalone.ts";
import type { components, operations } from "./generated/standalone.ts";
import type { BodyOf, QueryOf, ResultOf } from "./operationTypes.ts";
import { checkHeaderValue } from "./parseOptions.ts";

export type ImpactClientOptions = TransportOptions & {
  /** `api_key_prod` or `api_key_test`. Never use it in a browser, where anyone can read it; public calls need no key. */
  readonly apiKey?: string;
};

type Query<Id extends keyof operations> = QueryOf<operations[Id]>;
type Body<Id extends keyof operations> = BodyOf<operations[Id]>;
type Result<Id extends keyof operations> = ResultOf<operations[Id]>;

/** The names of the standalone interface's objects, such as `StandaloneSchemas["Registration"]`. */
export type StandaloneSchemas = components["schemas"];

type Read<Id extends keyof operations> = (
  query?: Query<Id>,
  options?: CallOptions,
) => Promise<Result<Id>>;

type Write<Id extends keyof operations> = (
  body: Body<Id>,
  options?: WriteOptions,
) => Promise<Result<Id>>;

type WriteBatch<Id extends keyof operations> = (
  body: Body<Id>,
  query?: Query<Id>,
  options?: WriteOptions,
) => Promise<Result<Id>>;

type ReadList<Id extends keyof operations> = (
  query?: Query<Id>,
  options?: CallOptions,
) => ExportableList<Result<Id>>;

/** Names the object by its id. */
type ActOn<Id extends keyof operations> = (
  id: string,
  options?: CallOptions,
) => Promise<Result<Id>>;

/** The standalone interface. Each method is named as its operation in the API description, which explains it. */
export type ImpactClient = Pick<Caller<operations>, "call"> & {
  readonly registerTrees: Write<"registerTrees">;
  readonly registerBottles: Write<"registerBottles">;
  readonly registerTreesInBatch: WriteBatch<"registerTreesInBatch">;
  readonly registerBottlesInBatch: WriteBatch<"registerBottlesInBatch">;
  readonly refundTrees: Write<"refundTrees">;
  readonly refundBottles: Write<"refundBottles">;
  readonly refundTreesInBatch: WriteBatch<"refundTreesInBatch">;
  readonly refundBottlesInBatch: WriteBatch<"refundBottlesInBatch">;
  readonly donateInBatch: WriteBatch<"donateInBatch">;
  readonly refundDonationsInBatch: WriteBatch<"refundDonationsInBatch">;
  readonly donate: Write<"donate">;
  readonly refundDonation: Write<"refundDonation">;
  /** Has no idempotency key: it is repeated only after a response that says that nothing was done. */
  readonly subscribeToDonations: (options?: CallOptions) => Promise<Result<"subscribeToDonations">>;

  readonly listTrees: ReadList<"listTrees">;
  readonly listBottles: ReadList<"listBottles">;
  readonly listDonations: ReadList<"listDonations">;
  readonly listUsage: ReadList<"listUsage">;
  readonly searchCharities: Read<"searchCharities">;
  readonly readUsage: ActOn<"readUsage">;
  readonly readStatement: (
    query?: Query<"readStatement">,
    options?: CallOptions,
  ) => Promise<Result<"readStatement">>;
  readonly readStatistics: (
    query: Query<"readStatistics">,
    options?: CallOptions,
  ) => Promise<Result<"readStatistics">>;
  readonly readCertificateUrl: (
    query: Query<"readCertificateUrl">,
    options?: CallOptions,
  ) => Promise<Result<"readCertificateUrl">>;
  readonly readTreeEvidence: (
    registrationId: string,
    query?: Query<"readTreeEvidence">,
    options?: CallOptions,
  ) => Promise<Result<"readTreeEvidence">>;
  readonly readEvidenceSummary: (options?: CallOptions) => Promise<Result<"readEvidenceSummary">>;
  readonly readDashboardUrl: (options?: CallOptions) => Promise<Result<"readDashboardUrl">>;

  /** The events that can be read now, oldest first. */
  readonly listEvents: (
    query?: Query<"listEvents">,
    options?: CallOptions,
  ) => List<Result<"listEvents">>;
  /** Yields events for ever, and polls for new ones; end it with the signal, or by leaving the loop. */
  readonly followEvents: (
    query?: Query<"listEvents">,
    options?: FollowOptions,
  ) => AsyncGenerator<StandaloneSchemas["Event"], void, void>;

  readonly createWebhookEndpoint: Write<"createWebhookEndpoint">;
  /** Like the other changes of webhook endpoints, repeated only after a response that says that nothing was done. */
  readonly updateWebhookEndpoint: (
    id: string,
    body: Body<"updateWebhookEndpoint">,
    options?: CallOptions,
  ) => Promise<Result<"updateWebhookEndpoint">>;
  readonly rotateWebhookSecret: (
    id: string,
    body?: Body<"rotateWebhookSecret">,
    options?: CallOptions,
  ) => Promise<Result<"rotateWebhookSecret">>;
  readonly pingWebhookEndpoint: ActOn<"pingWebhookEndpoint">;
  readonly deleteWebhookEndpoint: ActOn<"deleteWebhookEndpoint">;
  readonly readWebhookEndpoint: ActOn<"readWebhookEndpoint">;
  readonly recoverWebhookEvents: (
    id: string,
    body: Body<"recoverWebhookEvents">,
    options?: CallOptions,
  ) => Promise<Result<"recoverWebhookEvents">>;
  /** One page of deliveries; `starting_after` continues it. */
  readonly listWebhookDeliveries: (
    id: string,
    query?: Query<"listWebhookDeliveries">,
    options?: CallOptions,
  ) => Promise<Result<"listWebhookDeliveries">>;
  readonly retryWebhookDelivery: (
    id: string,
    deliveryId: string,
    options?: CallOptions,
  ) => Promise<Result<"retryWebhookDelivery">>;
  readonly listWebhookEndpoints: (options?: CallOptions) => Promise<Result<"listWebhookEndpoints">>;

  /** The numbers of a public dashboard. Needs no key, and works in browsers of any site. */
  readonly readDashboard: (
    slug: string,
    options?: CallOptions,
  ) => Promise<StandaloneSchemas["Dashboard"]>;
  /**
   * What a public certificate says. Needs no key, and works in browsers of any site.
   * @param urlOrToken its URL, of which the last part of the path counts, or that part
   */
  readonly readCertificate: (
    urlOrToken: string,
    options?: CallOptions,
  ) => Promise<StandaloneSchemas["Certificate"]>;
  /** Whether the process responds. Needs no key. */
  readonly health: (options?: CallOptions) => Promise<Result<"health">>;
  /** Whether the process can serve requests; an `ImpactApiError` with status 503 if not. Needs no key. */
  readonly readiness: (options?: CallOptions) => Promise<Result<"readiness">>;
};

const PAGE = { limit: 1000 };
const REGISTRATION_PAGE = { first: 1000 };
const DONATION_PAGE = { page_size: 100 };

const certificatePath = (urlOrToken: string): string => {
  const [path = ""] = urlOrToken.split(/[?#]/u);
  const segments = path.split("/").filter((segment) => segment !== "");
  return `/certificate/${encodeURIComponent(segments.at(-1) ?? "")}.json`;
};

/**
 * Yields each donation once. Their pages are counted, so a donation that is made meanwhile moves the last one of a page to
 * the next.
 */
async function* withoutRepetitions<Donation extends { readonly id: string }>(
  donations: AsyncIterable<Donation>,
): AsyncGenerator<Donation, void, void> {
  const seen = new Set<string>();
  for await (const donation of donations) {
    if (!seen.has(donation.id)) {
      seen.add(donation.id);
      yield donation;
    }
  }
}

/** Creates a client of the standalone interface. */
export const createImpactClient = ({ apiKey, ...options }: ImpactClientOptions): ImpactClient => {
  const authentication =
    apiKey === undefined ? null : { Authorization: checkHeaderValue("apiKey", apiKey) };
  const transport = createTransport(options, authentication, ["error"]);
  const { call, list } = createCaller<operations>(transport, OPERATIONS);

  const readPublic = async (path: string, own: CallOptions = {}): Promise<never> =>
    (await transport.send({ method: "GET", path, isPublic: true }, own)).data as never;

  const listEvents: ImpactClient["listEvents"] = (query, own) => {
    const { pages, [Symbol.asyncIterator]: iterate } = list("listEvents", query, own, PAGE);
    return { pages, [Symbol.asyncIterator]: iterate };
  };

  const listDonations: ImpactClient["listDonations"] = (query, own) => {
    const donations = list("listDonations", query, own, DONATION_PAGE);
    return { ...donations, [Symbol.asyncIterator]: () => withoutRepetitions(donations) };
  };

  return {
    call,
    registerTrees: (body, own) => call("registerTrees", { body }, own),
    registerBottles: (body, own) => call("registerBottles", { body }, own),
    registerTreesInBatch: (body, query = {}, own) =>
      call("registerTreesInBatch", { body, query }, own),
    registerBottlesInBatch: (body, query = {}, own) =>
      call("registerBottlesInBatch", { body, query }, own),
    refundTrees: (body, own) => call("refundTrees", { body }, own),
    refundBottles: (body, own) => call("refundBottles", { body }, own),
    refundTreesInBatch: (body, query = {}, own) => call("refundTreesInBatch", { body, query }, own),
    refundBottlesInBatch: (body, query = {}, own) =>
      call("refundBottlesInBatch", { body, query }, own),
    donateInBatch: (body, query = {}, own) => call("donateInBatch", { body, query }, own),
    refundDonationsInBatch: (body, query = {}, own) =>
      call("refundDonationsInBatch", { body, query }, own),
    donate: (body, own) => call("donate", { body }, own),
    refundDonation: (body, own) => call("refundDonation", { body }, own),
    subscribeToDonations: (own) => call("subscribeToDonations", {}, own),

    listTrees: (query, own) => list("listTrees", query, own, REGISTRATION_PAGE),
    listBottles: (query, own) => list("listBottles", query, own, REGISTRATION_PAGE),
    listDonations,
    listUsage: (query, own) => list("listUsage", query, own, PAGE),
    searchCharities: (query = {}, own) => call("searchCharities", { query }, own),
    readUsage: (id, own) => call("readUsage", { path: { registration_id: id } }, own),
    readStatement: (query = {}, own) => call("readStatement", { query }, own),
    readStatistics: (query, own) => call("readStatistics", { query }, own),
    readCertificateUrl: (query, own) => call("readCertificateUrl", { query }, own),
    readTreeEvidence: (id, query = {}, own) =>
      call("readTreeEvidence", { path: { id }, query }, own),
    readEvidenceSummary: (own) => call("readEvidenceSummary", {}, own),
    readDashboardUrl: (own) => call("readDashboardUrl", {}, own),

    listEvents,
    followEvents: (query, own) => followEvents(listEvents, query, own),

    createWebhookEndpoint: (body, own) => call("createWebhookEndpoint", { body }, own),
    updateWebhookEndpoint: (id, body, own) =>
      call("updateWebhookEndpoint", { path: { id }, body }, own),
    rotateWebhookSecret: (id, body = {}, own) =>
      call("rotateWebhookSecret", { path: { id }, body }, own),
    pingWebhookEndpoint: (id, own) => call("pingWebhookEndpoint", { path: { id } }, own),
    deleteWebhookEndpoint: (id, own) => call("deleteWebhookEndpoint", { path: { id } }, own),
    readWebhookEndpoint: (id, own) => call("readWebhookEndpoint", { path: { id } }, own),
    recoverWebhookEvents: (id, body, own) =>
      call("recoverWebhookEvents", { path: { id }, body }, own),
    listWebhookDeliveries: (id, query = {}, own) =>
      call("listWebhookDeliveries", { path: { id }, query }, own),
    retryWebhookDelivery: (id, deliveryId, own) =>
      call("retryWebhookDelivery", { path: { id, delivery_id: deliveryId } }, own),
    listWebhookEndpoints: (own) => call("listWebhookEndpoints", {}, own),

    readDashboard: (slug, own) => readPublic(`/dashboard/${encodeURIComponent(slug)}.json`, own),
    readCertificate: (urlOrToken, own) => readPublic(certificatePath(urlOrToken), own),
    health: (own) => readPublic(OPERATIONS.health.path, own),
    readiness: (own) => readPublic(OPERATIONS.readiness.path, own),
  };
};
