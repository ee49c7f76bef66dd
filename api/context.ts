import type { Logger } from "pino";
import type { Config } from "../runtime/config/config.ts";
import { createBulkPool } from "../db/createBulkPool.ts";
import { readServerStatus } from "../db/connections/serverStatus.ts";
import { takePermit } from "../db/rateLimits.ts";
import type { TakePermit } from "../db/rateLimits.ts";
import { systemClock } from "../runtime/clock.ts";
import { addProcessMetrics } from "../runtime/gauges.ts";
import { openDatabase, openHealthConnection, openReads } from "../db/openDatabase.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import type { RunningServer } from "../runtime/server/startServer.ts";
import { watchHealth } from "../runtime/server/watchHealth.ts";
import { createCharities } from "../modules/charities/createCharities.ts";
import { loadStripe, loadWebhookReader } from "../modules/billing/loadStripe.ts";
import { openTemporalClient } from "../runtime/temporalClient.ts";
import { readWebhookSettings } from "../modules/events/allowedAddresses.ts";
import { createPlanting } from "../modules/planting/createPlanting.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import { createAuthenticator, noteKeyUses } from "../modules/accounts/createAuthenticator.ts";
import { createDeploymentName } from "../modules/billing/holdUsage.ts";
import type { Context } from "../runtime/context.ts";
import { createRegistrationWriter } from "../modules/registrations/createRegistrationWriter.ts";
import { createStoreWriter } from "../modules/stores/createStoreWriter.ts";
import { createCharityValidator } from "./endpoints/createCharityValidator.ts";
import { createListGate } from "./http/listEndpoints.ts";
import type { Streaming } from "./http/listEndpoints.ts";
import { PAGE_SEARCH_MS } from "./http/listPages.ts";
import { WRITE_TIMEOUT_MS } from "./http/streamText.ts";
import { createApiMetrics } from "./http/createApiMetrics.ts";

const secretsOf = (given: string | undefined): readonly string[] | null =>
  given?.split(",") ?? null;

export const openApiContext = async (config: Config, logger: Logger) => {
  // A pool for each kind of work, so that none uses up the connections of another.
  const db = await openDatabase(config);
  const reads = await openReads(config);
  // So that pages of lists wait for no other slow query. A list that has begun may wait for its next page.
  const lists = await openReads(config);
  const healthChecks = await openHealthConnection(config);
  const temporal = openTemporalClient();
  const context: Context = { db, clock: systemClock };
  const listGate = createListGate();
  const metrics = createApiMetrics({
    openLists: () => listGate.runningCount(),
    queueLength: () => writer.queueLength() + storeWriter.queueLength(),
  });
  const health = await watchHealth({
    ...context,
    readDatabaseTime: async () => (await readServerStatus(healthChecks)).now,
    temporal,
    logger,
    needsTemporal: false,
  });
  addProcessMetrics(metrics.registry, health.read, { main: db, reads, lists });
  const writer = createRegistrationWriter(context, metrics.observeBatch);
  const storeWriter = createStoreWriter(context, metrics.observeBatch);
  const noteUse = noteKeyUses(context, (error) => {
    logger.warn({ err: error }, "the last uses of keys cannot be stored; retrying");
  });
  const getDeployment = await createDeploymentName(context);
  /** The servers that listen. The first is that of the organizations' interface. */
  const servers: RunningServer[] = [];
  return {
    ...context,
    logger,
    observe: metrics.observeRequest,
    takePermit: ((bucket, limit) => takePermit(db, bucket, limit)) satisfies TakePermit,
    /** How many proxies of our own a request passes. */
    trustedProxies: config.TRUSTED_PROXIES,
    isTraced: config.OTEL_EXPORTER_OTLP_ENDPOINT !== undefined,
    readReadiness: health.read,
    /** Connections for queries that may read many records. */
    reads,
    lists,
    /** The same for whole lists, which yield to recording. */
    bulkLists: createBulkPool(lists, db),
    streaming: {
      gate: listGate,
      writeTimeoutMs: WRITE_TIMEOUT_MS,
      pageSearchMs: PAGE_SEARCH_MS,
    } satisfies Streaming,
    charities: createCharities({ ...context, searches: reads, config }),
    validateCharity: createCharityValidator(temporal, getDeployment),
    planting: createPlanting(config),
    webhookSettings: readWebhookSettings(config),
    publicBaseUrl: () =>
      config.PUBLIC_BASE_URL ??
      browsableUrl(servers[0]?.url ?? `http://${config.HOST}:${config.PORT}`),
    /** The base URL in the API description; `/` if the program does not know its public URL. */
    documentBaseUrl: config.PUBLIC_BASE_URL ?? "/",
    authenticator: createAuthenticator({ ...context, noteUse }),
    /** The secrets that the planting partner may sign its reports with; null if it sends none. */
    plantingCallbackSecrets: secretsOf(config.PLANTING_CALLBACK_SECRET),
    /** With which the platform signs its privacy requests; null rejects the path as unknown. */
    platformSecrets: secretsOf(config.STORE_PLATFORM_SECRET),
    /** Verifies Stripe's webhooks; null if there is no signing secret. */
    readStripeWebhook: await loadWebhookReader(config),
    billing: createBilling({ db, stripe: await loadStripe(config) }),
    writer,
    storeWriter,
    metrics,
    health,
    servers,
    /** Stores everything for the last time and closes all connections. Call it when no requests are in progress. */
    end: async (): Promise<void> => {
      await Promise.all([writer.drain(), storeWriter.drain()]);
      health.end();
      await Promise.all([db, reads, lists, healthChecks].map((pool) => pool.end()));
    },
  };
};

export type ApiContext = Awaited<ReturnType<typeof openApiContext>>;

export type AppContext = Omit<ApiContext, "metrics" | "health" | "servers" | "end">;
