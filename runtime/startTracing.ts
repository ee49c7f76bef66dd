import { setTimeout as sleep } from "node:timers/promises";
import { context, diag, DiagLogLevel, trace } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "pino";
import type { Config } from "./config/config.ts";

/* Imported only if tracing is on, because the SDK takes time and memory. */

/** The collector gets the last spans in this time, or they are lost. */
const SHUTDOWN_TIMEOUT_MS = 2000;

/**
 * Starts OpenTelemetry's SDK, which exports to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names, and reports faults of
 * the export to the log. Returns a function that exports what is left.
 */
export const startTracing = (config: Config, program: string, logger: Logger) => {
  const ours = resourceFromAttributes({
    "service.name": `impact-${program}`,
    "service.namespace": "impact-tracking-service",
  });
  const provider = new TracerProvider({
    // A client decides about its own trace, with `traceparent`.
    sampler: new ParentBasedSampler({
      root: new TraceIdRatioBasedSampler(config.OTEL_TRACES_SAMPLER_ARG),
    }),
    resource: defaultResource()
      .merge(ours)
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter(),
        scheduledDelayMillis: config.OTEL_BSP_SCHEDULE_DELAY,
      }),
    ],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  trace.setGlobalTracerProvider(provider);
  const log = logger.child({ component: "OpenTelemetry" });
  // By its level, it gets nothing else.
  const warn = (message: string): void => log.warn(message);
  diag.setLogger(
    { error: warn, warn, info: warn, debug: warn, verbose: warn },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  );
  return (): Promise<unknown> =>
    Promise.race([
      provider.shutdown().catch((error: unknown) => diag.warn(String(error))),
      sleep(SHUTDOWN_TIMEOUT_MS, undefined, { ref: false }),
    ]);
};
