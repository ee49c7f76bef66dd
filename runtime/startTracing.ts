import { context, diag, DiagLogLevel, SpanKind, trace } from "@opentelemetry/api";
import type { Span } from "@opentelemetry/api";
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
import type { Interceptor, QueryContext } from "slonik";
import type { Config } from "./config/config.ts";
import { recordError } from "./tracing.ts";
import { awaitAtMost } from "./waiting.ts";

/* Imported only if tracing is on, because the SDK takes time and memory. */

/** The collector gets the last spans in this time, or they are lost. */
const SHUTDOWN_TIMEOUT_MS = 2000;

/**
 * Records a span for each statement that belongs to a trace. The text of a statement has placeholders and no values.
 * Statements of the programs' own loops belong to no trace.
 */
const createStatementSpans = (): Interceptor => {
  const tracer = trace.getTracer("impact-tracking-service");
  const spans = new WeakMap<QueryContext, Span>();
  return {
    name: "statement-spans",
    beforeQueryExecution: (queryContext, { sql: text }) => {
      if (trace.getActiveSpan()?.isRecording() === true) {
        const operation = (/[A-Za-z]+/u.exec(text)?.[0] ?? "statement").toUpperCase();
        const attributes = {
          "db.system.name": "postgresql",
          "db.operation.name": operation,
          "db.query.text": text.replaceAll(/\s+/gu, " ").trim(),
        };
        spans.set(queryContext, tracer.startSpan(operation, { kind: SpanKind.CLIENT, attributes }));
      }
      return null;
    },
    afterQueryExecution: (queryContext) => {
      spans.get(queryContext)?.end();
      return null;
    },
    queryExecutionError: (queryContext, _query, error) => {
      const span = spans.get(queryContext);
      if (span) {
        recordError(span, error);
        span.end();
      }
      return null;
    },
  };
};

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
    statementSpans: createStatementSpans(),
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
    stop: (): Promise<void> =>
      awaitAtMost(
        provider.shutdown().catch((error: unknown) => diag.warn(String(error))),
        SHUTDOWN_TIMEOUT_MS,
      ),
  };
};

export type RunningTracing = ReturnType<typeof startTracing>;
