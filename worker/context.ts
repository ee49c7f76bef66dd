import type { Logger } from "pino";
import type { Config } from "../runtime/config/config.ts";
import { readServerStatus } from "../db/connections/serverStatus.ts";
import { createBulkPool } from "../db/createBulkPool.ts";
import { systemClock } from "../runtime/clock.ts";
import { openDatabase, openHealthConnection } from "../db/openDatabase.ts";
import { addProcessMetrics } from "../runtime/gauges.ts";
import { serveMetrics } from "../runtime/server/serveMetrics.ts";
import { watchHealth } from "../runtime/server/watchHealth.ts";
import { openTemporalClient } from "../runtime/temporalClient.ts";
import { createBilling } from "../modules/billing/createBilling.ts";
import { loadStripe } from "../modules/billing/loadStripe.ts";
import { createCharities } from "../modules/charities/createCharities.ts";
import type { Context } from "../runtime/context.ts";
import { createWorkerMetrics } from "./createWorkerMetrics.ts";

/** Of their own, so that many deliveries at once leave billing its connections. */
const WEBHOOK_CONNECTIONS = 3;

/**
 * Opens a pool for each kind of work, so that none uses up the connections of another, and what uses them. Watches the health
 * of the process, and serves it with the metrics unless their port is off.
 */
export const openWorkerContext = async (config: Config, logger: Logger) => {
  const db = await openDatabase(config);
  const webhookDb = await openDatabase({ ...config, DATABASE_POOL_SIZE: WEBHOOK_CONNECTIONS });
  const healthConnection = await openHealthConnection(config);
  const context: Context = { db, clock: systemClock };
  const temporal = openTemporalClient();
  const metrics = createWorkerMetrics({ ...context, logger });
  const health = await watchHealth({
    ...context,
    readDatabaseTime: async () => (await readServerStatus(healthConnection)).now,
    temporal,
    logger,
    needsTemporal: true,
  });
  addProcessMetrics(metrics.registry, health.read, { main: db, webhooks: webhookDb });
  const server = await serveMetrics(config, "WORKER_METRICS_PORT", metrics.read, health.read);
  return {
    ...context,
    webhookDb,
    /** Of the work for all accounts together, which yields to what clients record. */
    bulkDb: createBulkPool(db),
    logger,
    temporal,
    metrics,
    health,
    urls: server ? { metrics: server.url } : {},
    billing: createBilling({ db, stripe: await loadStripe(config) }),
    charities: createCharities({ ...context, config }),
    /** Closes the server and all connections. Call it when no work is in progress. */
    end: async (): Promise<void> => {
      health.end();
      await server?.close(1000);
      await Promise.all([db, webhookDb, healthConnection].map((pool) => pool.end()));
    },
  };
};

export type WorkerContext = Awaited<ReturnType<typeof openWorkerContext>>;
