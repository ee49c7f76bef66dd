import type { Logger } from "pino";
import type { Config } from "../runtime/config/config.ts";
import { createBulkPool } from "../db/createBulkPool.ts";
import { systemClock } from "../runtime/clock.ts";
import { openDatabase, openHealthConnection } from "../db/openDatabase.ts";
import { openTemporalClient } from "../runtime/temporalClient.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import { loadStripe } from "../modules/billing/loadStripe.ts";
import { createCharities } from "../modules/charities/createCharities.ts";
import type { Context } from "../runtime/context.ts";
import { createWorkerMetrics } from "./createWorkerMetrics.ts";

/** Of their own, so that many deliveries at once leave billing its connections. */
const WEBHOOK_CONNECTIONS = 3;

/** Opens a pool for each kind of work, so that none uses up the connections of another, and what uses them. */
export const openWorkerContext = async (config: Config, logger: Logger) => {
  const db = await openDatabase(config);
  const webhookDb = await openDatabase({ ...config, DATABASE_POOL_SIZE: WEBHOOK_CONNECTIONS });
  const healthConnection = await openHealthConnection(config);
  const context: Context = { db, clock: systemClock };
  return {
    ...context,
    webhookDb,
    healthConnection,
    /** Of the work for all accounts together, which yields to what clients record. */
    bulkDb: createBulkPool(db),
    logger,
    temporal: openTemporalClient(),
    metrics: createWorkerMetrics({ ...context, logger }),
    billing: createBilling({ db, stripe: await loadStripe(config) }),
    charities: createCharities({ ...context, config }),
    /** Closes all connections. Call it when no work is in progress. */
    end: async (): Promise<void> => {
      await Promise.all([db, webhookDb, healthConnection].map((pool) => pool.end()));
    },
  };
};

export type WorkerContext = Awaited<ReturnType<typeof openWorkerContext>>;
