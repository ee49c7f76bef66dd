import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";
import { keepTemporalMetrics } from "./metrics/temporalMetrics.ts";
import { findFreePort } from "../runtime/server/probePort.ts";
import { withoutExpectedStack } from "./withoutExpectedStack.ts";

const LEVELS = {
  TRACE: "trace",
  DEBUG: "debug",
  INFO: "info",
  WARN: "warn",
  ERROR: "error",
} as const;

/**
 * Forwards the SDK's logs to the logger and enables its metrics. Call it once, before any other use of the SDK.
 * @returns a function that reads those of the SDK's metrics that are kept, in Prometheus' text format
 */
export const installTemporalRuntime = async (
  logger: Logger,
): Promise<{ readonly readMetrics: () => Promise<string> }> => {
  // The SDK's exporter does not report its port, so it cannot choose one itself.
  const bindAddress = `127.0.0.1:${await findFreePort()}`;
  Runtime.install({
    logger: new DefaultLogger("WARN", ({ level, message, meta }) =>
      logger[LEVELS[level]](withoutExpectedStack(message, { ...meta }), message),
    ),
    // The program handles signals and stops the Temporal worker together with its other parts.
    shutdownSignals: [],
    telemetryOptions: {
      logging: { forward: {}, filter: { core: "WARN", other: "WARN" } },
      metrics: { prometheus: { bindAddress } },
    },
  });
  return {
    readMetrics: async () => {
      const response = await fetch(`http://${bindAddress}/metrics`);
      return keepTemporalMetrics(await response.text());
    },
  };
};
