import type { Logger } from "pino";
import type { Config } from "../config/config.ts";
import { systemClock } from "../domain/clock.ts";
import { openDatabase } from "../program/openDatabase.ts";
import { runProgram } from "../program/runProgram.ts";
import type { RunningPart } from "../program/runProgram.ts";
import { serveMetrics } from "../program/serveMetrics.ts";
import { startServer } from "../program/startServer.ts";
import type { Listener, RunningServer } from "../program/startServer.ts";
import { openTemporalClient } from "../program/temporalClient.ts";
import { createBilling } from "../providers/billing/createBilling.ts";
import { createAuthenticator } from "../services/createAuthenticator.ts";
import { createRegistrationWriter } from "../services/registrationWriter.ts";
import { createHealthChecks } from "./health/createHealthChecks.ts";
import { createApiMetrics } from "./metrics/createApiMetrics.ts";
import { createStandaloneApp } from "./standalone/createStandaloneApp.ts";
import { createStoreApp, presentStoreError } from "./store/createStoreApp.ts";

/** The whole of an orderly end; what is not done by then is cut off. */
const SHUTDOWN_MS = 10_000;
const FINISH_REQUESTS_MS = 7000;

const startApi = async (config: Config, logger: Logger): Promise<RunningPart> => {
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
    publicBaseUrl: config.PUBLIC_BASE_URL ?? null,
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
  const serve = async (
    listener: Listener,
    at: Omit<Parameters<typeof startServer>[1], "host">,
  ): Promise<string> => {
    const server = await startServer(listener, { host, ...at });
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
      standalone: await serve(standalone.callback(), { port: config.PORT, setting: "PORT" }),
      store: await serve(store.callback(), {
        port: config.STORE_PORT,
        setting: "STORE_PORT",
        presentError: presentStoreError,
      }),
      ...(config.METRICS_PORT === "off"
        ? {}
        : {
            metrics: await serve(serveMetrics(metrics.registry), {
              port: config.METRICS_PORT,
              setting: "METRICS_PORT",
            }),
          }),
    };
    return { addresses, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};

await runProgram("api", startApi, SHUTDOWN_MS);
