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

/** Starts OpenTelemetry's SDK, which exports to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names. */
export const startTracing = (config: Config, program: string) => {
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
  return {
    /** Returns the ids of the active span, for lines of the log. */
    logFields: (): Readonly<Record<string, string>> => {
      const active = trace.getActiveSpan()?.spanContext();
      return active === undefined ? {} : { trace_id: active.traceId, span_id: active.spanId };
    },
    /** Reports faults of the export to the log. */
    logTo: (logger: Logger): void => {
      const log = logger.child({ component: "OpenTelemetry" });
      diag.setLogger(
        {
          error: (message) => log.warn(message),
          warn: (message) => log.warn(message),
          info: (message) => log.debug(message),
          debug: (message) => log.debug(message),
          verbose: (message) => log.trace(message),
        },
        { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
      );
    },
    /** Exports what is left. */
    stop: (): Promise<unknown> =>
      Promise.race([
        provider.shutdown().catch((error: unknown) => diag.warn(String(error))),
        sleep(SHUTDOWN_TIMEOUT_MS, undefined, { ref: false }),
      ]),
  };
};
