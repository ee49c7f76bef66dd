import { DefaultLogger, Runtime } from "@temporalio/worker";
import type { Logger } from "pino";
import { findFreePort } from "../runtime/server/probePort.ts";
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

/**
 * The metrics of Temporal's SDK that an operator needs. It has a histogram for each operation and each type of workflow
 * and activity, hundreds of series in all, which nothing of ours reads.
 */
export const TEMPORAL_METRICS: readonly string[] = [
  "temporal_activity_execution_failed",
  "temporal_long_request_failure",
  "temporal_num_pollers",
  "temporal_request_failure",
  "temporal_worker_task_slots_available",
  "temporal_worker_task_slots_used",
  "temporal_workflow_task_execution_failed",
];

const KEPT: ReadonlySet<string> = new Set(TEMPORAL_METRICS);

/** The name in a line of Prometheus' text format: of a sample, or of a metric that a comment describes. */
const NAME = /^(?:# (?:HELP|TYPE) )?(?<name>\w+)/u;

/** Returns the lines of the metrics in Prometheus' text format that are kept. */
const keepTemporalMetrics = (text: string): string =>
  text
    .split("\n")
    .filter((line) => KEPT.has(NAME.exec(line)?.groups?.["name"] ?? ""))
    .map((line) => `${line}\n`)
    .join("");

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
