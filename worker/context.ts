import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import type { Config } from "../config/config.ts";
import { openBulkPace } from "../db/bulkWork/createBulkPace.ts";
import { openBulkPool } from "../db/bulkWork/openBulkPool.ts";
import { systemClock } from "../domain/clock.ts";
import { openDatabase, openHealthConnection } from "../program/openDatabase.ts";
import type { RunningTracing } from "../program/tracing/startTracing.ts";
import { openTemporalClient } from "../program/temporal/temporalClient.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import { loadStripe } from "../providers/billing/loadStripe.ts";
import { createCharities } from "../providers/charities/createCharities.ts";
import { logUnusableHits } from "../program/log/logUnusableHits.ts";
import { readCharitySettings } from "../program/settings/readCharitySettings.ts";
import { readStripeOptions } from "../program/settings/readStripeOptions.ts";
import type { BillingContext } from "../services/billing/context.ts";
import type { BulkPace } from "../db/bulkWork/createBulkPace.ts";
import type { CharityContext } from "../services/charities/context.ts";
import type { Context } from "../services/context.ts";
import type { WorkerMetrics } from "./metrics/createWorkerMetrics.ts";
import { createWorkerMetrics } from "./metrics/createWorkerMetrics.ts";

/** Of their own, so that many deliveries at once leave billing its connections. */
const WEBHOOK_CONNECTIONS = 3;

/** Opens all pools, so that no kind of work uses up the connections of another. */
const openConnections = async (config: Config, tracing: RunningTracing | undefined) => {
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

/** What the worker process creates once. */
export type WorkerContext = BillingContext &
  Pick<CharityContext, "charities"> & {
    readonly logger: Logger;
    /** The pool of the work for all accounts together, which yields to what clients record. */
    readonly bulkDb: DatabasePool;
    readonly webhookDb: DatabasePool;
    readonly healthConnection: DatabasePool;
    readonly pace: BulkPace;
    readonly temporal: Client;
    readonly metrics: WorkerMetrics;
    /** Closes all connections. Call it when no work is in progress. */
    readonly end: () => Promise<void>;
  };

/** Creates everything that the parts of the worker use. */
export const openWorkerContext = async (
  config: Config,
  logger: Logger,
  tracing: RunningTracing | undefined,
): Promise<WorkerContext> => {
  const connections = await openConnections(config, tracing);
  const { db, pace } = connections;
  const context: Context = { db, clock: systemClock, tracing };
  return {
    ...connections,
    ...context,
    logger,
    temporal: openTemporalClient(),
    metrics: createWorkerMetrics({ ...context, logger }),
    billing: createBilling({ db, stripe: await loadStripe(readStripeOptions(config)), pace }),
    charities: createCharities({
      ...context,
      settings: readCharitySettings(config),
      onUnusable: logUnusableHits(logger),
    }),
  };
};
