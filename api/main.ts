import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import type { Config } from "../config/config.ts";
import { readServerStatus } from "../db/connections/serverStatus.ts";
import { openBulkPace } from "../db/bulkWork/createBulkPace.ts";
import { createPermits } from "../db/rateLimits.ts";
import { systemClock } from "../domain/clock.ts";
import type { Clock } from "../domain/clock.ts";
import {
  openCopies,
  openDatabase,
  openHealthConnection,
  openReads,
  openSearches,
} from "../program/openDatabase.ts";
import { logUnusableHits } from "../program/log/logUnusableHits.ts";
import { readCharitySettings } from "../program/settings/readCharitySettings.ts";
import { findIgnoredPrice, readStripeOptions } from "../program/settings/readStripeOptions.ts";
import { readWebhookSettings } from "../program/settings/readWebhookSettings.ts";
import type { RunningTracing } from "../program/tracing/startTracing.ts";
import { runProgram } from "../program/runProgram.ts";
import type { RunningPart } from "../program/runProgram.ts";
import { createPlaces } from "../program/server/createPlaces.ts";
import { serveMetrics } from "../program/server/serveMetrics.ts";
import { browsableUrl, startServer } from "../program/server/startServer.ts";
import type { RunningServer } from "../program/server/startServer.ts";
import { addHealthMetrics } from "../program/server/addHealthMetrics.ts";
import { addPoolMetrics } from "../program/addPoolMetrics.ts";
import { openTemporalClient } from "../program/temporal/temporalClient.ts";
import { watchHealth } from "../program/server/watchHealth.ts";
import { wakePlantingOrder } from "../program/temporal/wakePlantingOrder.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import { loadStripe, loadWebhookReader } from "../providers/billing/loadStripe.ts";
import { createCharities } from "../providers/charities/createCharities.ts";
import { readPlantingSettings } from "../program/settings/readPlantingSettings.ts";
import { createPlanting } from "../providers/planting/createPlanting.ts";
import { createDeploymentName } from "../services/billing/deploymentName.ts";
import { createKeyUses } from "../services/accounts/createKeyUses.ts";
import { createAuthenticator } from "../services/accounts/createAuthenticator.ts";
import { createRetryGuard } from "../services/registrations/createRetryGuard.ts";
import { createRegistrationWriter } from "../services/registrations/createRegistrationWriter.ts";
import { createStoreAuthenticator } from "../services/stores/createStoreAuthenticator.ts";
import { createStoreRegistrationWriter } from "../services/stores/records/createStoreRegistrationWriter.ts";
import { createCharityValidator } from "./charities/createCharityValidator.ts";
import { PAGE_SEARCH_MS } from "./http/lists/listPages.ts";
import { WRITE_TIMEOUT_MS } from "./http/lists/streamText.ts";
import { createApiMetrics } from "./metrics/createApiMetrics.ts";
import type { ApiMetrics } from "./metrics/createApiMetrics.ts";
import { createStandaloneApp } from "./standalone/createStandaloneApp.ts";
import { createStoreApp } from "./store/createStoreApp.ts";
import { presentStoreError } from "./store/errors.ts";

/** The process exits after this time, even if not everything has stopped. */
const SHUTDOWN_TIMEOUT_MS = 10_000;
/** Requests in progress may finish in this time; then their connections are closed. */
const FINISH_REQUESTS_MS = 7000;
/** Short, because the partner's report waits for it and the workflow polls anyway. */
const WAKE_TIMEOUT_MS = 1000;

/** Of lists that are sent at the same time. Each may hold a megabyte until its client has read it. */
const MAXIMUM_LISTS = 64;

type Tracing = RunningTracing | undefined;

/** Opens all pools, so that no kind of work uses up the connections of another. */
const openConnections = async (config: Config, tracing: Tracing) => {
  const interceptors = tracing === undefined ? [] : [tracing.statementSpans];
  const db = await openDatabase(config, interceptors);
  const pace = openBulkPace(db);
  const copies = openCopies(config, pace);
  const searches = await openSearches(config, interceptors);
  const reads = await openReads(config, interceptors);
  const healthChecks = await openHealthConnection(config);
  return {
    db,
    pace,
    copies,
    searches,
    reads,
    healthChecks,
    end: async (): Promise<void> => {
      await Promise.all([db, copies, searches, reads, healthChecks].map((pool) => pool.end()));
    },
  };
};

type Observed = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly metrics: ApiMetrics;
  readonly logger: Logger;
  readonly tracing: Tracing;
};

/** What collects writes in memory: registrations for a batch, and last uses of keys. */
const createWriters = ({ db, clock, metrics, logger, tracing }: Observed) => {
  const { observeBatch } = metrics;
  const writer = createRegistrationWriter({ db, clock, observeBatch, tracing });
  const storeWriter = createStoreRegistrationWriter({ db, clock, observeBatch, tracing });
  metrics.watchQueue(() => writer.queueLength() + storeWriter.queueLength());
  const keyUses = createKeyUses({
    db,
    clock,
    onError: (error) => {
      logger.warn({ err: error }, "the last uses of keys cannot be stored; retrying");
    },
  });
  return {
    writer,
    storeWriter,
    keyUses,
    /** Stores everything for the last time. */
    end: async (): Promise<void> => {
      await Promise.all([writer.drain(), storeWriter.drain()]);
      await keyUses.stop();
    },
  };
};

const startApi = async (config: Config, logger: Logger, tracing: Tracing): Promise<RunningPart> => {
  const ignoredPrice = findIgnoredPrice(config);
  if (ignoredPrice !== null) {
    logger.warn(ignoredPrice);
  }
  const connections = await openConnections(config, tracing);
  const { db, pace, copies, searches, reads, healthChecks } = connections;
  const temporal = openTemporalClient();
  const clock = systemClock;
  const metrics = createApiMetrics();
  const health = await watchHealth({
    readDatabaseTime: async () => (await readServerStatus(healthChecks)).now,
    temporal,
    clock,
    logger,
    needsTemporal: false,
  });
  addHealthMetrics(metrics.registry, health.read);
  addPoolMetrics(metrics.registry, { main: db, searches, reads });
  const writers = createWriters({ db, clock, metrics, logger, tracing });
  const { writer, storeWriter, keyUses } = writers;
  const places = createPlaces(MAXIMUM_LISTS);
  metrics.watchLists(places.usedCount);
  const getDeployment = await createDeploymentName({ db, clock });
  const running: RunningServer[] = [];
  /** Returns what reads secrets that are separated by commas, or null if there are none. */
  const secretsOf = (
    name: "PLANTING_CALLBACK_SECRET" | "STORE_PLATFORM_SECRET" | "STRIPE_WEBHOOK_SECRET",
  ): (() => readonly string[]) | null =>
    config[name] === undefined ? null : () => config[name]?.split(",") ?? [];
  const shared = {
    app: {
      logger,
      observe: metrics.observeRequest,
      tracing,
      takePermit: createPermits({ db }),
      trustedProxies: config.TRUSTED_PROXIES,
    },
    db,
    reads,
    clock,
    guard: createRetryGuard(),
    readReadiness: health.read,
    streaming: {
      places,
      pace,
      writeTimeoutMs: WRITE_TIMEOUT_MS,
      pageSearchMs: PAGE_SEARCH_MS,
    },
    charities: createCharities({
      db,
      searches,
      clock,
      settings: readCharitySettings(config),
      onUnusable: logUnusableHits(logger),
    }),
    validateCharity: createCharityValidator(temporal, getDeployment, { tracing }),
    planting: createPlanting(readPlantingSettings(config)),
    webhookSettings: readWebhookSettings(config),
    publicBaseUrl: (): string =>
      config.PUBLIC_BASE_URL ??
      browsableUrl(running[0]?.url ?? `http://${config.HOST}:${config.PORT}`),
  };
  const standalone = createStandaloneApp({
    ...shared,
    authenticator: createAuthenticator({ db, clock, keyUses, accountType: "organization" }),
    documentBaseUrl: config.PUBLIC_BASE_URL ?? "/",
    plantingCallbackSecrets: secretsOf("PLANTING_CALLBACK_SECRET"),
    readStripeWebhook: await loadWebhookReader(secretsOf("STRIPE_WEBHOOK_SECRET")),
    wakeOrder: async (orderId) => {
      await wakePlantingOrder(temporal, getDeployment, orderId, WAKE_TIMEOUT_MS);
    },
    copies,
    billing: createBilling({ db, stripe: await loadStripe(readStripeOptions(config)) }),
    writer,
  });
  const store = createStoreApp({
    ...shared,
    authenticator: createStoreAuthenticator({ db, clock, keyUses }),
    platformSecrets: secretsOf("STORE_PLATFORM_SECRET"),
    storeWriter,
  });

  const forClients = {
    host: config.HOST,
    maximumConnections: config.MAXIMUM_CONNECTIONS,
    onRejectedConnection: metrics.observeRejectedConnection,
  };
  const register = (server: RunningServer): string => {
    running.push(server);
    return server.url;
  };
  /** Goes on serving for a while, so that balancers notice and send new requests to other processes. */
  const drain = async (): Promise<void> => {
    health.startStopping();
    for (const server of running) {
      server.startClosing();
    }
    await delay(config.DRAIN_SECONDS * 1000);
  };
  const stop = async (): Promise<void> => {
    health.startStopping();
    await Promise.all(running.map((server) => server.close(FINISH_REQUESTS_MS)));
    await writers.end();
    health.end();
    await connections.end();
  };
  try {
    const urls = {
      standalone: register(
        await startServer(standalone.callback(), {
          ...forClients,
          fromMemory: standalone.fromMemory,
          port: config.PORT,
          setting: "PORT",
        }),
      ),
      store: register(
        await startServer(store.callback(), {
          ...forClients,
          port: config.STORE_PORT,
          setting: "STORE_PORT",
          presentError: presentStoreError,
        }),
      ),
    };
    const metricsServer = await serveMetrics(config, "METRICS_PORT", {
      contentType: metrics.registry.contentType,
      read: () => metrics.registry.metrics(),
    });
    return {
      urls: metricsServer === null ? urls : { ...urls, metrics: register(metricsServer) },
      drain,
      stop,
    };
  } catch (error) {
    await stop();
    throw error;
  }
};

await runProgram("api", startApi, SHUTDOWN_TIMEOUT_MS);
