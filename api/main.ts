import { setTimeout as delay } from "node:timers/promises";
import type { Logger } from "pino";
import type { Config } from "../runtime/config/config.ts";
import { browsableUrl } from "../runtime/loopback.rules.ts";
import { runProgram } from "../runtime/runProgram.ts";
import type { RunningPart } from "../runtime/runProgram.ts";
import { serveMetrics } from "../runtime/server/serveMetrics.ts";
import { createRequestGate } from "../runtime/server/openDoor.ts";
import { serverUrl, startServer } from "../runtime/server/startServer.ts";
import type { ServerOptions } from "../runtime/server/startServer.ts";
import { openApiContext } from "./context.ts";
import type { ApiContext } from "./context.ts";
import type { App } from "./http/createApp.ts";
import { createStandaloneApp } from "./standalone/createStandaloneApp.ts";
import { demoPages } from "./standalone/demoPages.ts";
import { createStoreApp } from "./store/createStoreApp.ts";
import { presentStoreError } from "./store/storeErrors.ts";

/** The process exits after this time, even if not everything has stopped. */
const SHUTDOWN_TIMEOUT_MS = 10_000;
/** Requests in progress may finish in this time; then their connections are closed. */
const FINISH_REQUESTS_MS = 7000;

/** Of clients to each interface. Each takes a file descriptor and some kilobytes. */
const MAXIMUM_CONNECTIONS = 20_000;

/** Serves both interfaces, and the metrics unless their port is off. Returns the URLs by their names. */
const listen = async (
  config: Config,
  { metrics, servers }: ApiContext,
  { standalone, store }: { readonly standalone: App; readonly store: App },
): Promise<RunningPart["urls"]> => {
  const forClients = {
    gate: createRequestGate(),
    host: config.HOST,
    maximumConnections: MAXIMUM_CONNECTIONS,
    onRejectedConnection: metrics.observeRejectedConnection,
  };
  const start = async (
    app: App,
    options: Pick<ServerOptions, "port" | "setting" | "presentError">,
  ): Promise<string> => {
    const server = await startServer(app.callback(), { ...forClients, ...options });
    servers.push(server);
    return server.url;
  };
  const urls = {
    standalone: await start(standalone, { port: config.PORT, setting: "PORT" }),
    store: await start(store, {
      port: config.STORE_PORT,
      setting: "STORE_PORT",
      presentError: presentStoreError,
    }),
  };
  const metricsServer = await serveMetrics(config, "METRICS_PORT", () =>
    metrics.registry.metrics(),
  );
  if (metricsServer === null) {
    return urls;
  }
  servers.push(metricsServer);
  return { ...urls, metrics: metricsServer.url };
};

/** Of `npm start -- --demo`, which starts this program with it. */
const [demoFile] = process.argv.slice(2);

const startApi = async (config: Config, logger: Logger): Promise<RunningPart> => {
  const context = await openApiContext(config, logger);
  const demo =
    demoFile &&
    demoPages(demoFile, {
      host: config.HOST,
      storeUrl: browsableUrl(serverUrl(config.HOST, config.STORE_PORT)),
      publicBaseUrl: context.publicBaseUrl,
    });
  const apps = {
    standalone: createStandaloneApp(context, demo || []),
    store: createStoreApp(context),
  };
  const { health, servers } = context;
  /** Goes on serving for a while, so that balancers notice and send new requests to other processes. */
  const drain = async (): Promise<void> => {
    health.startStopping();
    for (const server of servers) {
      server.startClosing();
    }
    await delay(config.DRAIN_SECONDS * 1000);
  };
  const stop = async (): Promise<void> => {
    health.startStopping();
    await Promise.all(servers.map((server) => server.close(FINISH_REQUESTS_MS)));
    await context.end();
  };
  try {
    return { urls: await listen(config, context, apps), drain, stop };
  } catch (error) {
    await stop();
    throw error;
  }
};

await runProgram("api", startApi, SHUTDOWN_TIMEOUT_MS);
