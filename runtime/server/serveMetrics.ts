import type { Config } from "../config/config.ts";
import type { RunningServer } from "./startServer.ts";
import { startServer } from "./startServer.ts";
import type { Readiness } from "./watchHealth.ts";
import type { RequestListener, ServerResponse } from "node:http";

type Answer = { readonly status: number; readonly type: string; readonly body: string };

const asJson = (status: number, body: object): Answer => ({
  status,
  type: "application/json; charset=utf-8",
  body: JSON.stringify(body),
});

/** `/metrics` of a process in the Prometheus text format. */
type MetricsSource = {
  readonly contentType: string;
  readonly read: () => Promise<string>;
};

const send = (response: ServerResponse, { status, type, body }: Answer): void => {
  response.writeHead(status, { "Content-Type": type }).end(body);
};

/**
 * Serves what an operator's tools read: `/metrics`, and `/healthz` and `/readyz` of a process without an API of its own.
 * @param readReadiness absent where the process serves its readiness on its API
 */
const serveOperations = (
  { contentType, read }: MetricsSource,
  readReadiness?: () => Readiness,
): RequestListener => {
  const paths = ["/metrics", ...(readReadiness ? ["/healthz", "/readyz"] : [])];
  const answer = async (path: string): Promise<Answer> => {
    if (path === "/metrics") {
      return { status: 200, type: contentType, body: await read() };
    }
    if (readReadiness && path === "/healthz") {
      return asJson(200, { status: "ok" });
    }
    if (readReadiness && path === "/readyz") {
      const readiness = readReadiness();
      return asJson(readiness.status === "ok" ? 200 : 503, readiness);
    }
    return { status: 404, type: "text/plain", body: `not found; available: ${paths.join(", ")}\n` };
  };
  return (request, response) => {
    answer(request.url ?? "").then(
      (result) => send(response, result),
      () => response.writeHead(500).end(),
    );
  };
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
