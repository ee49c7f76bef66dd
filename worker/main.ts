import type { Logger } from "pino";
import type { Config } from "../runtime/config/config.ts";
import { createDonationActivities } from "../activities/createDonationActivities.ts";
import { createPerpetualActivities } from "../activities/createPerpetualActivities.ts";
import { runProgram } from "../runtime/runProgram.ts";
import type { RunningPart } from "../runtime/runProgram.ts";
import { createWebhookSender } from "../modules/events/createWebhookSender.ts";
import { plantingOrderIntervalMs, createPlanting } from "../modules/planting/createPlanting.ts";
import { readWebhookSettings } from "../modules/events/allowedAddresses.ts";
import { createReportingRuns } from "../modules/billing/sending/createUsageSender.ts";
import { createDeliveryRuns } from "../modules/events/createDeliveryRuns.ts";
import { backgroundQueue, interactiveQueue } from "../runtime/temporalNames.rules.ts";
import type { Runs } from "../db/createRuns.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";
import { awaitDeploymentName, watchHold } from "./deployment.ts";
import { createDispatcherRuns } from "./createDispatcherRuns.ts";
import { ensureWorkflows, startPlantingOrder } from "./ensureWorkflows.ts";
import { prepareProcessor } from "./prepareProcessor.ts";
import { openWorkerContext } from "./context.ts";
import { bundleWorkflows } from "./bundleWorkflows.ts";
import { MAX_CONCURRENT_ACTIVITIES, createRunWorker, installTemporalRuntime } from "./runWorker.ts";
import type { WorkerContext } from "./context.ts";
import { createBillingActivities } from "../activities/createBillingActivities.ts";
import type { BillingObservers } from "../activities/createBillingActivities.ts";
import { createRetentionActivities } from "../activities/createRetentionActivities.ts";
import { createPlantingActivities } from "../activities/createPlantingActivities.ts";

const createBackgroundActivities = (
  config: Config,
  context: WorkerContext &
    BillingObservers & { readonly startOrder: (orderId: number) => Promise<void> },
) => ({
  ...createBillingActivities(context),
  ...createRetentionActivities({ ...context, db: context.bulkDb }),
  ...createPlantingActivities({
    ...context,
    planting: createPlanting(config, (unusable) => {
      context.logger.warn(
        unusable,
        "TreeMapper has records that no order can use until they are corrected there",
      );
    }),
    plantingOrderIntervalMs: plantingOrderIntervalMs(config),
  }),
});

/**
 * The Temporal workers take up to 14 s to finish their tasks, before the database is closed. While both hang, neither ends,
 * and orchestrators kill a process after 30 s.
 */
const SHUTDOWN_TIMEOUT_MS = 18_000;

const createAllRuns = (config: Config, context: WorkerContext) => {
  const { billing, deliveries } = context.metrics;
  return {
    "usage-sender": createReportingRuns(context, {
      ...billing,
      callsPerSecond: config.STRIPE_CALLS_PER_SECOND,
    }),
    "webhook-sender": createDeliveryRuns({
      db: context.webhookDb,
      clock: context.clock,
      send: createWebhookSender(readWebhookSettings(config)),
      random: Math.random,
      ...deliveries,
    }),
    dispatcher: createDispatcherRuns({ ...context, ...billing }),
  } satisfies Record<PerpetualKind, Runs>;
};

/**
 * One thread runs the workflows of a task queue, and a task expires after ten seconds. When many workflows have to be
 * replayed at the same time, more tasks would expire while they wait for it, again and again.
 */
const MAX_CONCURRENT_WORKFLOW_TASKS = 40;

const forever = (): Promise<never> => new Promise(() => undefined);

const startWorker = async (config: Config, logger: Logger): Promise<RunningPart> => {
  installTemporalRuntime(logger);
  // Before anything that waits for other services, so that the worker can be watched while it waits.
  const context = await openWorkerContext(config, logger);
  const shutdown = new AbortController();
  const stopping = shutdown.signal;
  const guard = await watchHold(context, stopping);
  const deployment = awaitDeploymentName(context, stopping);
  const workflowBundle = bundleWorkflows();
  const run = createRunWorker({ logger, workflowBundle }, stopping);
  /** Runs a part of the worker in Temporal, unless it is stopped before the deployment's name there is decided. */
  const whenNamed = async (
    part: (named: NonNullable<Awaited<typeof deployment>>) => Promise<void>,
  ): Promise<void> => {
    // `failed` reports the error.
    const named = await deployment.catch(() => null);
    await (named && part(named));
  };
  // Clients wait for donations, so their worker starts before anything that waits for other services.
  const interactiveWorker = whenNamed(({ name, identity }) =>
    run({
      identity,
      taskQueue: interactiveQueue(name),
      activities: createDonationActivities(context),
      // Its workflow tasks wait for charity providers, in local activities.
      maxConcurrentWorkflowTaskExecutions: MAX_CONCURRENT_ACTIVITIES,
    }),
  );
  // Ends the program also while the processor is prepared. It settles only with an error: workers resolve after `stop` alone.
  const failed = Promise.race(
    [workflowBundle, deployment, interactiveWorker].map((part) => part.then(forever)),
  );
  await Promise.race([prepareProcessor(context), failed]);

  const runs = createAllRuns(config, context);
  const activities = {
    ...createPerpetualActivities({ runs, stopping }),
    ...createBackgroundActivities(config, {
      ...context,
      ...context.metrics.billing,
      startOrder: async (orderId) => {
        const named = await deployment;
        await (named && startPlantingOrder(context.temporal, named.name, orderId));
      },
    }),
  };
  const backgroundWorker = whenNamed(({ name, identity }) =>
    run({
      identity,
      taskQueue: backgroundQueue(name),
      activities,
      maxConcurrentWorkflowTaskExecutions: MAX_CONCURRENT_WORKFLOW_TASKS,
    }),
  );
  const ensuring = whenNamed(({ name }) =>
    ensureWorkflows(
      { ...context, deployment: name, plantingOrderIntervalMs: plantingOrderIntervalMs(config) },
      stopping,
    ),
  );

  return {
    urls: context.urls,
    failed: Promise.race([failed, backgroundWorker.then(forever)]),
    stop: async () => {
      context.health.startStopping();
      shutdown.abort();
      await Promise.all([interactiveWorker, backgroundWorker, ensuring, guard.ended]);
      await Promise.all(Object.values(runs).map((each) => each.end()));
      await context.end();
    },
  };
};

await runProgram("worker", startWorker, SHUTDOWN_TIMEOUT_MS);
