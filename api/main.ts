import type { Logger } from "pino";
import type { DatabasePool } from "slonik";
import { ConfigError, readConfig } from "../config/config.ts";
import type { Config } from "../config/config.ts";
import { createLogger } from "../config/createLogger.ts";
import { openTemporalClient } from "../config/temporal.ts";
import { requireCurrentSchema, SchemaMismatchError } from "../db/migrate.ts";
import { openPool } from "../db/pool.ts";
import { systemClock } from "../domain/clock.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import { createAuthenticator } from "../services/createAuthenticator.ts";
import { createRegistrationWriter } from "../services/registrationWriter.ts";
import { createHealthChecks } from "./health/createHealthChecks.ts";
import { startServer, StartupError } from "./http/startServer.ts";
import type { Listener, RunningServer } from "./http/startServer.ts";
import { createApiMetrics } from "./metrics/createApiMetrics.ts";
import { serveMetrics } from "./metrics/serveMetrics.ts";
import { createStandaloneApp } from "./standalone/createStandaloneApp.ts";
import { createStoreApp } from "./store/createStoreApp.ts";

/** The whole of an orderly end; what is not done by then is cut off. */
const SHUTDOWN_MS = 10_000;
const FINISH_REQUESTS_MS = 7000;

/** Where the database is, without its password. */
const nameDatabase = (databaseUrl: string): string => {
  const { host, pathname } = new URL(databaseUrl);
  return `${host}${pathname}`;
};

const openDatabase = async (config: Config): Promise<DatabasePool> => {
  const { DATABASE_URL, DATABASE_POOL_SIZE } = config;
  if (DATABASE_URL === undefined) {
    throw new StartupError(
      "DATABASE_URL is not set. Set it to a PostgreSQL database, or run everything on this machine with: npm start",
    );
  }
  try {
    await requireCurrentSchema(DATABASE_URL);
  } catch (error) {
    if (error instanceof SchemaMismatchError || !(error instanceof Error)) {
      throw error;
    }
    // Of several addresses that refuse, node tells in an error without a message.
    const reason = error.message === "" && "code" in error ? String(error.code) : error.message;
    throw new StartupError(
      `The database at ${nameDatabase(DATABASE_URL)} cannot be used: ${reason}. Check DATABASE_URL.`,
      { cause: error },
    );
  }
  return openPool(DATABASE_URL, DATABASE_POOL_SIZE);
};

type Addresses = {
  readonly standalone: string;
  readonly store: string;
  readonly metrics: string | null;
};

type RunningApi = { readonly addresses: Addresses; readonly stop: () => Promise<void> };

const startApi = async (config: Config, logger: Logger): Promise<RunningApi> => {
  const db = await openDatabase(config);
  const temporal = openTemporalClient();
  const clock = systemClock;
  const metrics = createApiMetrics();
  const writer = createRegistrationWriter({ db, clock, observeBatch: metrics.observeBatch });
  metrics.watchQueue(writer.queueLength);
  const billing = createBilling({
    db,
    stripe:
      config.STRIPE_SECRET_KEY === undefined
        ? null
        : { secretKey: config.STRIPE_SECRET_KEY, apiBase: config.STRIPE_API_BASE },
  });
  const around = {
    logger,
    observe: metrics.observeRequest,
    checks: createHealthChecks({ db, temporal }),
  };
  const standalone = createStandaloneApp({
    ...around,
    authenticator: createAuthenticator({ db, accountType: "organization" }),
    db,
    clock,
    billing,
    writer,
  });
  const store = createStoreApp({
    ...around,
    authenticator: createAuthenticator({ db, accountType: "store" }),
  });

  const host = config.HOST;
  const running: RunningServer[] = [];
  const serve = async (listener: Listener, port: number, setting: string): Promise<string> => {
    const server = await startServer(listener, { host, port, setting });
    running.push(server);
    return server.address;
  };
  const stop = async (): Promise<void> => {
    await Promise.all(running.map((server) => server.close(FINISH_REQUESTS_MS)));
    await writer.drain();
    await db.end();
  };
  try {
    const addresses = {
      standalone: await serve(standalone.callback(), config.PORT, "PORT"),
      store: await serve(store.callback(), config.STORE_PORT, "STORE_PORT"),
      metrics:
        config.METRICS_PORT === "off"
          ? null
          : await serve(serveMetrics(metrics.registry), config.METRICS_PORT, "METRICS_PORT"),
    };
    return { addresses, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};

/** Resolves when the process is asked to end, by a signal or by the end of the program that started it. */
const askedToEnd = (): Promise<string> =>
  new Promise((resolve) => {
    for (const event of ["SIGINT", "SIGTERM", "SIGHUP"] as const) {
      process.on(event, () => resolve(event));
    }
    process.on("disconnect", () => resolve("the end of the parent process"));
  });

const main = async (): Promise<void> => {
  const config = readConfig();
  const logger = createLogger(config, "api");
  const end = askedToEnd();
  const { addresses, stop } = await startApi(config, logger);
  logger.info(addresses, "ready");
  process.send?.({ type: "ready", addresses });
  logger.info({ reason: await end }, "stopping");
  setTimeout(() => {
    logger.fatal("not everything ended in time");
    logger.flush();
    process.exit(1);
  }, SHUTDOWN_MS).unref();
  await stop();
  logger.info("stopped");
};

try {
  await main();
  // Not left to the event loop: Temporal's client retries past a call's deadline, and throws when closed under it; the
  // channel to a parent stays open too.
  process.exit();
} catch (error) {
  if (
    !(
      error instanceof ConfigError ||
      error instanceof StartupError ||
      error instanceof SchemaMismatchError
    )
  ) {
    throw error;
  }
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
}
