import type { Logger } from "pino";
import type { Interceptor } from "slonik";
import type { Config } from "./config/config.ts";
import type { Tracing } from "./tracing.rules.ts";

export type RunningTracing = Tracing & {
  /** The ids of the active span, for lines of the log. */
  readonly logFields: () => Readonly<Record<string, string>>;
  /** Records the statements of a pool. */
  readonly statementSpans: Interceptor;
  /** Reports faults of the export to the log. */
  readonly logTo: (logger: Logger) => void;
  /** Exports what is left. */
  readonly stop: () => Promise<void>;
};

/** Starts tracing if it is configured. */
export const startTracing = async (
  config: Config,
  program: string,
): Promise<RunningTracing | undefined> => {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_SDK_DISABLED: isDisabled } = config;
  if (endpoint === undefined || isDisabled) {
    return undefined;
  }
  const { openTelemetry } = await import("./openTelemetry.ts");
  return openTelemetry(config, program);
};
