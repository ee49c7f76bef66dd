import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import type { Config } from "../config/config.ts";
import { createBillingActivities } from "../activities/createBillingActivities.ts";
import type { BillingObservers } from "../activities/createBillingActivities.ts";
import { createDonationActivities } from "../activities/createDonationActivities.ts";
import {
  createShardActivities,
  createWebhookActivities,
} from "../activities/createShardActivities.ts";
import { createRetentionActivities } from "../activities/createRetentionActivities.ts";
import { createPlantingActivities } from "../activities/createPlantingActivities.ts";
import { recordMaximumCallRate } from "../db/billing/sending/callRate.ts";
import { readServerStatus } from "../db/connections/serverStatus.ts";
import { openBulkPace } from "../db/bulkWork/createBulkPace.ts";
import { openBulkPool } from "../db/bulkWork/openBulkPool.ts";
import { systemClock } from "../domain/clock.ts";
import { openDatabase, openHealthConnection } from "../program/openDatabase.ts";
import type { RunningTracing } from "../program/tracing/startTracing.ts";
import { runProgram } from "../program/runProgram.ts";
import type { RunningPart } from "../program/runProgram.ts";
import { serveMetrics } from "../program/server/serveMetrics.ts";
import { addHealthMetrics } from "../program/server/addHealthMetrics.ts";
import { addPoolMetrics } from "../program/addPoolMetrics.ts";
import { openTemporalClient } from "../program/temporal/temporalClient.ts";
import { watchHealth } from "../program/server/watchHealth.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import { loadStripe } from "../providers/billing/loadStripe.ts";
import { createCharities } from "../providers/charities/createCharities.ts";
import { createPlanting } from "../providers/planting/createPlanting.ts";
import { createWebhookSender } from "../providers/webhooks/createWebhookSender.ts";
import { logUnusableHits } from "../program/log/logUnusableHits.ts";
import { readCharitySettings } from "../program/settings/readCharitySettings.ts";
import { readStripeOptions } from "../program/settings/readStripeOptions.ts";
import { readWebhookSettings } from "../program/settings/readWebhookSettings.ts";
import {
  plantingOrderIntervalMs,
  readPlantingSettings,
} from "../program/settings/readPlantingSettings.ts";
import { createReportingRuns } from "../services/billing/sending/createReportingRuns.ts";
import { createDeliveryRuns } from "../services/webhooks/sending/createDeliveryRuns.ts";
import { backgroundQueue, interactiveQueue, webhookQueue } from "../workflows/taskQueues.ts";
import type { BillingContext } from "../services/billing/context.ts";
import type { BulkPace } from "../db/bulkWork/createBulkPace.ts";
import { awaitDeploymentName } from "./awaitDeploymentName.ts";
import { createWorkerMetrics } from "./metrics/createWorkerMetrics.ts";
import { ensureSchedules } from "./ensureSchedules.ts";
import { installTemporalRuntime } from "./installTemporalRuntime.ts";
import { createBillingObservers, createDeliveryObservers } from "./observers.ts";
import { prepareProcessor } from "./prepareProcessor.ts";
import { runDispatcher } from "./dispatcher/runDispatcher.ts";
import { readNewSubscriptions } from "./dispatcher/readNewSubscriptions.ts";
import { watchHold } from "./watchHold.ts";
import { bundleWorkflows } from "./bundleWorkflows.ts";
import { createNamespaceLog, runWorker } from "./runWorker.ts";

/**
 * The Temporal workers take up to 14 s to finish their tasks, before the database is closed. While both hang, neither ends,
 * and orchestrators kill a process after 30 s.
 */
const SHUTDOWN_TIMEOUT_MS = 18_000;

/** Of their own, so that many deliveries at once leave billing its connections. */
const WEBHOOK_CONNECTIONS = 3;

type Tracing = RunningTracing | undefined;

/** Opens all pools, so that no kind of work uses up the connections of another. */
const openConnections = async (config: Config, tracing: Tracing) => {
  const db = await openDatabase(config, tracing === undefined ? [] : [tracing.statementSpans]);
  const webhookDb = await openDatabase({ ...config, DATABASE_POOL_SIZE: WEBHOOK_CONNECTIONS });
  const healthConnection = await openHealthConnection(config);
  const pace = openBulkPace(db);
  return {
    db,
    webhookDb,
    healthConnection,
    pace,
    bulkDb: openBulkPool(db, pace),
    end: async (): Promise<void> => {
      await Promise.all([db, webhookDb, healthConnection].map((pool) => pool.end()));
    },
  };
};

/** Creates the activities of the background queue that are not run by shards. */
const createBackgroundActivities = (
  config: Config,
  {
    bulkDb,
    logger,
    ...deps
  }: BillingContext &
    BillingObservers & {
      readonly pace: BulkPace;
      readonly bulkDb: DatabasePool;
      readonly logger: Logger;
    },
) => ({
  ...createBillingActivities(deps),
  ...createRetentionActivities({
    db: bulkDb,
    clock: deps.clock,
    retention: {
      processorEventDays: config.PROCESSOR_EVENT_RETENTION_DAYS,
      reconciliationDays: config.RECONCILIATION_RETENTION_DAYS,
    },
    testDataDays: config.TEST_DATA_RETENTION_DAYS,
  }),
  ...createPlantingActivities({
    db: deps.db,
    bulkDb,
    clock: deps.clock,
    planting: createPlanting(readPlantingSettings(config), (unusable) => {
      logger.warn(
        unusable,
        "TreeMapper has records that no order can use until they are corrected there",
      );
    }),
    plantingPollMs: config.PLANTING_POLL_INTERVAL_SECONDS * 1000,
    plantingOrderIntervalMs: plantingOrderIntervalMs(config),
  }),
});

type DeploymentName = ReturnType<typeof awaitDeploymentName>;

/** Returns what runs parts of the worker in Temporal, unless it is stopped before the deployment's name there is decided. */
const createRunners = (
  deployment: DeploymentName,
  { config, logger }: { readonly config: Config; readonly logger: Logger },
  signal: AbortSignal,
) => {
  const workflowBundle = bundleWorkflows(config.WORKFLOW_BUNDLE);
  const logMissingNamespace = createNamespaceLog(logger);
  const whenNamed = async (
    run: (named: NonNullable<Awaited<DeploymentName>>) => Promise<void>,
  ): Promise<void> => {
    // `failed` reports the error.
    const named = await deployment.catch(() => null);
    await (named === null ? undefined : run(named));
  };
  const runQueue = (queueOf: (deployment: string) => string, activities: object): Promise<void> =>
    whenNamed(({ name, identity }) =>
      runWorker(
        {
          identity,
          activities,
          taskQueue: queueOf(name),
          hasLongTasks: queueOf === interactiveQueue,
          workflowBundle,
          logger,
          logMissingNamespace,
        },
        signal,
      ),
    );
  return { whenNamed, runQueue };
};

const forever = (): Promise<never> => new Promise(() => undefined);

const startWorker = async (
  config: Config,
  logger: Logger,
  tracing: Tracing,
): Promise<RunningPart> => {
  const connections = await openConnections(config, tracing);
  const { db, webhookDb, healthConnection, pace, bulkDb } = connections;
  const clock = systemClock;
  const temporal = openTemporalClient();
  const metrics = createWorkerMetrics({ db, clock, logger });
  const observers = createBillingObservers({ metrics, logger });
  const shutdown = new AbortController();
  const billing = createBilling({
    db,
    stripe: await loadStripe(readStripeOptions(config)),
    pace,
  });
  const guard = await watchHold({ db, clock, logger }, shutdown.signal);
  const { readMetrics } = await installTemporalRuntime(logger);
  const health = await watchHealth({
    readDatabaseTime: async () => (await readServerStatus(healthConnection)).now,
    temporal,
    clock,
    logger,
    needsTemporal: true,
  });
  addHealthMetrics(metrics.registry, health.read);
  addPoolMetrics(metrics.registry, { main: db, webhooks: webhookDb });
  // Before anything that waits for other services, so that the worker can be watched while it waits.
  const server = await serveMetrics(
    config,
    "WORKER_METRICS_PORT",
    {
      contentType: metrics.registry.contentType,
      read: async () => (await Promise.all([metrics.read(), readMetrics()])).join("\n"),
    },
    health.read,
  );
  const deployment = awaitDeploymentName({ db, clock, logger }, shutdown.signal);
  const { whenNamed, runQueue } = createRunners(deployment, { config, logger }, shutdown.signal);
  const charities = createCharities({
    db,
    clock,
    settings: readCharitySettings(config),
    onUnusable: logUnusableHits(logger),
  });
  // Clients wait for donations, so their worker starts before anything that waits for other services.
  const interactiveWorker = runQueue(
    interactiveQueue,
    createDonationActivities({ charities, tracing }),
  );
  await recordMaximumCallRate(db, config.STRIPE_CALLS_PER_SECOND);
  const processor = await prepareProcessor({ billing, logger }, shutdown.signal);
  void processor.ready.then(() =>
    readNewSubscriptions(
      { db, clock, billing, logger, observeUnread: observers.observeUnreadSubscription },
      shutdown.signal,
    ),
  );

  const reportingRuns = createReportingRuns(
    { db, clock, billing, tracing },
    { onResult: observers.observeSend, onFailure: observers.observeFailure },
  );
  const { onFailure, ...deliveryObservers } = createDeliveryObservers({ metrics, logger });
  const deliveryRuns = createDeliveryRuns(
    {
      db: webhookDb,
      clock,
      send: createWebhookSender(readWebhookSettings(config)),
      random: Math.random,
      ...deliveryObservers,
    },
    { onFailure },
  );
  const stopping = shutdown.signal;
  const workers = Promise.all([
    interactiveWorker,
    runQueue(webhookQueue, createWebhookActivities({ runs: deliveryRuns, stopping })),
    runQueue(backgroundQueue, {
      ...createShardActivities({ runs: reportingRuns, stopping }),
      ...createBackgroundActivities(config, {
        db,
        bulkDb,
        clock,
        billing,
        tracing,
        pace,
        logger,
        ...observers,
      }),
    }),
  ]);
  const dispatcher = whenNamed(({ name }) =>
    runDispatcher(
      {
        db,
        leases: healthConnection,
        clock,
        temporal,
        deployment: name,
        logger,
        observeLeadership: metrics.observeLeadership,
      },
      shutdown.signal,
    ),
  );
  const schedules = whenNamed(({ name }) =>
    ensureSchedules(
      {
        temporal,
        deployment: name,
        plantingOrderIntervalMs: plantingOrderIntervalMs(config),
        logger,
      },
      shutdown.signal,
    ),
  );

  return {
    urls: server ? { metrics: server.url } : {},
    // Settles only with an error: the workers resolve after `stop` alone.
    failed: Promise.race([workers.then(forever), processor.failed, deployment.then(forever)]),
    stop: async () => {
      health.startStopping();
      shutdown.abort();
      await Promise.all([workers, dispatcher, schedules, guard.ended]);
      await Promise.all([reportingRuns.end(), deliveryRuns.end()]);
      health.end();
      await server?.close(1000);
      await connections.end();
    },
  };
};

await runProgram("worker", startWorker, SHUTDOWN_TIMEOUT_MS);
