import { once } from "node:events";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";

/** A port that was free a moment ago: the SDK's exporter cannot tell which one it took. */
const findFreePort = async (): Promise<number> => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a TCP server that listens has an AddressInfo.
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
};

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
