import type { Config } from "../config/config.ts";
import type { MetricsSource } from "./serveOperations.ts";
import { serveOperations } from "./serveOperations.ts";
import type { RunningServer } from "./startServer.ts";
import { startServer } from "./startServer.ts";
import type { Readiness } from "./watchHealth.ts";

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
