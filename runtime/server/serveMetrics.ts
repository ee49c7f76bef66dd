import { Registry } from "prom-client";
import type { Config } from "../config/config.ts";
import type { RunningServer } from "./startServer.ts";
import { startServer } from "./startServer.ts";
import type { Readiness } from "./watchHealth.ts";
import type { Listener } from "./openDoor.ts";

type Page = { readonly status: number; readonly type: string; readonly body: string };

const json = (status: number, body: object): Page => ({
  status,
  type: "application/json; charset=utf-8",
  body: JSON.stringify(body),
});

/**
 * Serves what an operator's tools read on the port of a setting: `/metrics` in the Prometheus text format, and `/healthz` and
 * `/readyz` of a process without its own API. Returns null if the setting is `off`.
 * @param readReadiness absent where the process serves its readiness on its API
 * @throws StartupError if the port cannot be bound
 */
export const serveMetrics = async (
  config: Pick<Config, "METRICS_HOST" | "METRICS_PORT" | "WORKER_METRICS_PORT">,
  setting: "METRICS_PORT" | "WORKER_METRICS_PORT",
  readMetrics: () => Promise<string>,
  readReadiness?: () => Readiness,
): Promise<RunningServer | null> => {
  const port = config[setting];
  if (port === "off") {
    return null;
  }
  const pages: Readonly<Record<string, () => Page | Promise<Page>>> = {
    "/metrics": async () => ({
      status: 200,
      type: Registry.PROMETHEUS_CONTENT_TYPE,
      body: await readMetrics(),
    }),
    ...(readReadiness && {
      "/healthz": () => json(200, { status: "ok" }),
      "/readyz": () => {
        const readiness = readReadiness();
        return json(readiness.status === "ok" ? 200 : 503, readiness);
      },
    }),
  };
  const notFound = `not found; available: ${Object.keys(pages).join(", ")}\n`;
  const listener: Listener = async ({ url = "" }, response) => {
    try {
      const { status, type, body } = (await pages[url]?.()) ?? {
        status: 404,
        type: "text/plain",
        body: notFound,
      };
      response.writeHead(status, { "Content-Type": type }).end(body);
    } catch {
      response.writeHead(500).end();
    }
  };
  const { METRICS_HOST: host } = config;
  return startServer(listener, { host, hostSetting: "METRICS_HOST", port, setting });
};
