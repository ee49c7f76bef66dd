import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";
import type { LogMetadata } from "@temporalio/worker";

/** Returns an error's message and those of its causes. */
const reasonOf = ({ message, cause }: Error): string =>
  cause instanceof Error && cause.message !== message ? `${message}: ${reasonOf(cause)}` : message;

/**
 * Returns the fields of a line of the SDK's log with the reason in place of the error, if a stack says nothing more: an
 * activity ended as the program decided, such as for a record that is gone, or a workflow failed because of an activity,
 * whose own line has the stack.
 */
const withoutExpectedStack = (message: string, { error, ...fields }: LogMetadata): LogMetadata => {
  if (!(error instanceof Error)) {
    return error === undefined ? fields : { ...fields, error };
  }
  const isExpected =
    message === "Workflow failed" || ("nonRetryable" in error && error.nonRetryable === true);
  return { ...fields, ...(isExpected ? { reason: reasonOf(error) } : { error }) };
};

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
      logger[LEVELS[level]](withoutExpectedStack(message, { ...meta }), message),
    ),
    // The program handles signals and stops the Temporal worker together with its other parts.
    shutdownSignals: [],
    telemetryOptions: {
      logging: { forward: {}, filter: { core: "WARN", other: "WARN" } },
    },
  });
};
