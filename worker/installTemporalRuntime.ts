import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";
import { findFreePort } from "../program/probePort.ts";

const LEVELS = {
  TRACE: "trace",
  DEBUG: "debug",
  INFO: "info",
  WARN: "warn",
  ERROR: "error",
} as const;

/**
 * Sends the SDK's logs to ours and has it keep its metrics. To be called once, before anything else of the SDK's.
 * @returns a reader of the SDK's metrics in Prometheus' text form
 */
export const installTemporalRuntime = async (
  logger: Logger,
): Promise<{ readonly readMetrics: () => Promise<string> }> => {
  // The SDK's exporter cannot tell which port it took, so it is given one.
  const bindAddress = `127.0.0.1:${await findFreePort()}`;
  Runtime.install({
    logger: new DefaultLogger("WARN", ({ level, message, meta }) =>
      logger[LEVELS[level]]({ ...meta }, message),
    ),
    // Signals are ours to handle: the worker is one part of the process among others.
    shutdownSignals: [],
    telemetryOptions: {
      logging: { forward: {}, filter: { core: "WARN", other: "WARN" } },
      metrics: { prometheus: { bindAddress } },
    },
  });
  return {
    readMetrics: async () => {
      const response = await fetch(`http://${bindAddress}/metrics`);
      return response.text();
    },
  };
};
