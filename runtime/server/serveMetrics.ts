import type { Config } from "../config/config.ts";
import type { RunningServer } from "./startServer.ts";
import { startServer } from "./startServer.ts";
import type { Readiness } from "./watchHealth.ts";
import type { Listener } from "./openDoor.ts";

/** `/metrics` of a process in the Prometheus text format. */
type MetricsSource = {
  readonly contentType: string;
  readonly read: () => Promise<string>;
};

/**
 * Serves what an operator's tools read: `/metrics`, and `/healthz` and `/readyz` of a process without an API of its own.
 * @param readReadiness absent where the process serves its readiness on its API
 */
const serveOperations =
  ({ contentType, read }: MetricsSource, readReadiness?: () => Readiness): Listener =>
  async ({ url }, response) => {
    const send = (status: number, type: string, body: string): unknown =>
      response.writeHead(status, { "Content-Type": type }).end(body);
    const json = "application/json; charset=utf-8";
    if (url === "/metrics") {
      await read().then(
        (body) => send(200, contentType, body),
        () => response.writeHead(500).end(),
      );
    } else if (readReadiness && url === "/healthz") {
      send(200, json, JSON.stringify({ status: "ok" }));
    } else if (readReadiness && url === "/readyz") {
      const readiness = readReadiness();
      send(readiness.status === "ok" ? 200 : 503, json, JSON.stringify(readiness));
    } else {
      const paths = ["/metrics", ...(readReadiness ? ["/healthz", "/readyz"] : [])];
      send(404, "text/plain", `not found; available: ${paths.join(", ")}\n`);
    }
  };

/**
 * Serves the metrics of a process on the port of a setting. Returns null if the setting is `off`.
 * @param readReadiness absent where the process serves its readiness on its API
 * @throws StartupError if the port cannot be bound
 */
export const serveMetrics = async (
  config: Pick<Config, "METRICS_HOST" | "METRICS_PORT" | "WORKER_METRICS_PORT">,
  setting: "METRICS_PORT" | "WORKER_METRICS_PORT",
  source: MetricsSource,
  readReadiness?: () => Readiness,
): Promise<RunningServer | null> => {
  const port = config[setting];
  return port === "off"
    ? null
    : startServer(serveOperations(source, readReadiness), {
        host: config.METRICS_HOST,
        hostSetting: "METRICS_HOST",
        port,
        setting,
      });
};
