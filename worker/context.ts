import type { Client } from "@temporalio/client";
import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import type { Config } from "../runtime/config/config.ts";
import { createBulkPools } from "../db/createBulkPools.ts";
import { systemClock } from "../runtime/clock.ts";
import { openDatabase, openHealthConnection } from "../db/openDatabase.ts";
import type { RunningTracing } from "../runtime/startTracing.ts";
import { openTemporalClient } from "../runtime/temporalClient.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import { loadStripe } from "../modules/billing/loadStripe.ts";
import { createCharities } from "../modules/charities/createCharities.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import type { CharityContext } from "../modules/charities/context.ts";
import type { Context } from "../runtime/context.ts";
import type { WorkerMetrics } from "./createWorkerMetrics.ts";
import { createWorkerMetrics } from "./createWorkerMetrics.ts";

/** Of their own, so that many deliveries at once leave billing its connections. */
const WEBHOOK_CONNECTIONS = 3;

/** Opens all pools, so that no kind of work uses up the connections of another. */
const openConnections = async (config: Config, tracing: RunningTracing | undefined) => {
  const pools = {
    db: await openDatabase(config, tracing === undefined ? [] : [tracing.statementSpans]),
    webhookDb: await openDatabase({ ...config, DATABASE_POOL_SIZE: WEBHOOK_CONNECTIONS }),
    healthConnection: await openHealthConnection(config),
  };
  return {
    ...pools,
    bulkDb: createBulkPools(pools.db)(pools.db),
    end: async (): Promise<void> => {
      await Promise.all(Object.values(pools).map((pool) => pool.end()));
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
  const { db } = connections;
  const context: Context = { db, clock: systemClock };
  return {
    ...connections,
    ...context,
    logger,
    temporal: openTemporalClient(),
    metrics: createWorkerMetrics({ ...context, logger }),
    billing: createBilling({ db, stripe: await loadStripe(config) }),
    charities: createCharities({
      ...context,
      config,
    }),
  };
};
