import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";

const LEVELS = {
  TRACE: "trace",
  DEBUG: "debug",
  INFO: "info",
  WARN: "warn",
  ERROR: "error",
} as const;

/** Forwards the SDK's logs to the logger. Call it once, before any other use of the SDK. */
export const installTemporalRuntime = (logger: Logger): void => {
  Runtime.install({
    logger: new DefaultLogger("WARN", ({ level, message, meta }) =>
      logger[LEVELS[level]]({ ...meta }, message),
    ),
    // The program handles signals and stops the Temporal worker together with its other parts.
    shutdownSignals: [],
    telemetryOptions: {
      logging: { forward: {}, filter: { core: "WARN", other: "WARN" } },
    },
  });
};
