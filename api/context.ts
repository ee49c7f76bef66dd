import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import type { Config } from "../runtime/config/config.ts";
import { createBulkPool } from "../db/createBulkPool.ts";
import { readServerStatus } from "../db/connections/serverStatus.ts";
import { takePermit } from "../db/rateLimits.ts";
import type { TakePermit } from "../db/rateLimits.ts";
import { systemClock } from "../runtime/clock.ts";
import { addPoolMetrics, addHealthMetrics } from "../runtime/gauges.ts";
import { openDatabase, openHealthConnection, openLists, openReads } from "../db/openDatabase.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import type { RunningServer } from "../runtime/server/startServer.ts";
import { watchHealth } from "../runtime/server/watchHealth.ts";
import type { HealthWatch, Readiness } from "../runtime/server/watchHealth.ts";
import { createCharities } from "../modules/charities/createCharities.ts";
import { loadStripe, loadWebhookReader } from "../modules/billing/loadStripe.ts";
import { openTemporalClient } from "../runtime/temporalClient.ts";
import { readWebhookSettings } from "../modules/events/allowedAddresses.ts";
import { createPlanting } from "../modules/planting/createPlanting.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import type { ReadWebhook } from "../modules/billing/stripe/createWebhookReader.ts";
import { createAuthenticator, noteKeyUses } from "../modules/accounts/createAuthenticator.ts";
import type { Authenticate } from "../modules/accounts/createAuthenticator.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import { createDeploymentName } from "../modules/billing/holdUsage.ts";
import type { CharityContext } from "../modules/charities/context.ts";
import type { Context } from "../runtime/context.ts";
import type { EvidenceContext } from "../modules/planting/context.ts";
import type { ListContext } from "../modules/registrations/listRegistrations.ts";
import { createRegistrationWriter } from "../modules/registrations/createRegistrationWriter.ts";
import type { RegistrationWriter } from "../modules/registrations/createRegistrationWriter.ts";
import type { StoreContext } from "../modules/stores/createStoreWriter.ts";
import { createStoreWriter } from "../modules/stores/createStoreWriter.ts";
import type { WebhookContext } from "../modules/events/manageWebhookEndpoints.ts";
import { createCharityValidator } from "./endpoints/createCharityValidator.ts";
import { createListGate } from "./http/listEndpoints.ts";
import type { Streaming } from "./http/listEndpoints.ts";
import { PAGE_SEARCH_MS } from "./http/listPages.ts";
import { WRITE_TIMEOUT_MS } from "./http/streamText.ts";
import { addLoadMetrics, createApiMetrics } from "./http/createApiMetrics.ts";
import type { ApiMetrics } from "./http/createApiMetrics.ts";
import type { RequestObserver } from "./http/observeRequests.ts";

/** What both interfaces need. */
export type HttpContext = CharityContext &
  EvidenceContext &
  WebhookContext & {
    readonly logger: Logger;
    readonly observe: RequestObserver;
    /** Limits the requests of endpoints that have `requestsPerSecond`. */
    readonly takePermit: TakePermit;
    /** How many proxies of our own a request passes; 0 by default. */
    readonly trustedProxies?: number;
    /** Whether spans of requests are recorded; false by default. */
    readonly isTraced?: boolean;
    readonly readReadiness: () => Readiness;
    /** Connections for queries that may read many records. */
    readonly reads: DatabasePool;
    /** The same for whole lists, which yield to recording. */
    readonly bulkLists: DatabasePool;
    readonly streaming: Streaming;
  };

/** What the organizations' interface needs. */
export type StandaloneContext = HttpContext &
  BillingContext &
  ListContext & {
    readonly writer: RegistrationWriter;
    readonly authenticator: Authenticate;
    /** The base URL in the API description; `/` if the program does not know its public URL. */
    readonly documentBaseUrl: string;
    /** The secrets that the planting partner may sign its reports with; null if it sends none. */
    readonly plantingCallbackSecrets: readonly string[] | null;
    /** Verifies Stripe's webhooks; null if there is no signing secret. */
    readonly readStripeWebhook: ReadWebhook | null;
  };

/** What the store-platform interface needs. */
export type StoreAppContext = HttpContext &
  BillingContext &
  StoreContext & {
    readonly authenticator: Authenticate;
    /** With which the platform signs its privacy requests; null rejects the path as unknown. */
    readonly platformSecrets: readonly string[] | null;
  };

/** What the API process creates once. */
export type ApiContext = StandaloneContext &
  StoreAppContext & {
    readonly metrics: ApiMetrics;
    readonly health: HealthWatch;
    /** The servers that listen. The first is that of the organizations' interface. */
    readonly servers: RunningServer[];
    /** Stores everything for the last time and closes all connections. Call it when no requests are in progress. */
    readonly end: () => Promise<void>;
  };

/** Opens all pools, so that no kind of work uses up the connections of another. */
const openConnections = async (config: Config) => {
  const pools = {
    db: await openDatabase(config),
    reads: await openReads(config),
    lists: await openLists(config),
    healthChecks: await openHealthConnection(config),
  };
  return {
    ...pools,
    bulkLists: createBulkPool(pools.lists, pools.db),
    end: async (): Promise<void> => {
      await Promise.all(Object.values(pools).map((pool) => pool.end()));
    },
  };
};

/** Returns secrets that are separated by commas, or null if there are none. */
const secretsOf = (given: string | undefined): readonly string[] | null =>
  given?.split(",") ?? null;

export const openApiContext = async (config: Config, logger: Logger): Promise<ApiContext> => {
  const connections = await openConnections(config);
  const { db, reads, lists, bulkLists, healthChecks } = connections;
  const temporal = openTemporalClient();
  const context: Context = { db, clock: systemClock };
  const metrics = createApiMetrics();
  const health = await watchHealth({
    ...context,
    readDatabaseTime: async () => (await readServerStatus(healthChecks)).now,
    temporal,
    logger,
    needsTemporal: false,
  });
  addHealthMetrics(metrics.registry, health.read);
  addPoolMetrics(metrics.registry, { main: db, reads, lists });
  const writer = createRegistrationWriter({ ...context, observeBatch: metrics.observeBatch });
  const storeWriter = createStoreWriter({ ...context, observeBatch: metrics.observeBatch });
  const noteUse = noteKeyUses({
    ...context,
    onError: (error) => {
      logger.warn({ err: error }, "the last uses of keys cannot be stored; retrying");
    },
  });
  const listGate = createListGate();
  addLoadMetrics(metrics.registry, {
    openLists: () => listGate.runningCount(),
    queueLength: () => writer.queueLength() + storeWriter.queueLength(),
  });
  const getDeployment = await createDeploymentName(context);
  const servers: RunningServer[] = [];
  return {
    ...context,
    logger,
    observe: metrics.observeRequest,
    takePermit: (bucket, limit) => takePermit(db, bucket, limit),
    trustedProxies: config.TRUSTED_PROXIES,
    isTraced: config.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined,
    readReadiness: health.read,
    reads,
    lists,
    bulkLists,
    streaming: {
      gate: listGate,
      writeTimeoutMs: WRITE_TIMEOUT_MS,
      pageSearchMs: PAGE_SEARCH_MS,
    },
    charities: createCharities({ ...context, searches: reads, config }),
    validateCharity: createCharityValidator(temporal, getDeployment),
    planting: createPlanting(config),
    webhookSettings: readWebhookSettings(config),
    publicBaseUrl: () =>
      config.PUBLIC_BASE_URL ??
      browsableUrl(servers[0]?.url ?? `http://${config.HOST}:${config.PORT}`),
    documentBaseUrl: config.PUBLIC_BASE_URL ?? "/",
    authenticator: createAuthenticator({ ...context, noteUse }),
    plantingCallbackSecrets: secretsOf(config.PLANTING_CALLBACK_SECRET),
    platformSecrets: secretsOf(config.STORE_PLATFORM_SECRET),
    readStripeWebhook: await loadWebhookReader(config),
    billing: createBilling({ db, stripe: await loadStripe(config) }),
    writer,
    storeWriter,
    metrics,
    health,
    servers,
    end: async () => {
      await Promise.all([writer.drain(), storeWriter.drain()]);
      health.end();
      await connections.end();
    },
  };
};
