import {
  context,
  diag,
  DiagLogLevel,
  ROOT_CONTEXT,
  SpanKind,
  SpanStatusCode,
  trace,
  TraceFlags,
} from "@opentelemetry/api";
import type { Context, Span, SpanContext, Tracer } from "@opentelemetry/api";
import { AsyncLocalStorageContextManager } from "@opentelemetry/context-async-hooks";
import { parseTraceParent } from "@opentelemetry/core";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-proto";
import {
  defaultResource,
  detectResources,
  envDetector,
  resourceFromAttributes,
} from "@opentelemetry/resources";
import {
  AlwaysOffSampler,
  AlwaysOnSampler,
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Sampler } from "@opentelemetry/sdk-trace";
import type { Config } from "./config/config.ts";
import type { Tracing, TraceParent } from "./tracing.rules.ts";
import type { RunningTracing } from "./startTracing.ts";
import type { Interceptor, QueryContext } from "slonik";

/**
 * Records a span for each statement that belongs to a trace. The text of a statement has placeholders and no values.
 * Statements of the programs' own loops belong to no trace.
 */
const createStatementSpans = (
  tracer: Tracer,
  recordError: (span: Span, error: unknown) => void,
): Interceptor => {
  const spans = new WeakMap<QueryContext, Span>();
  return {
    name: "statement-spans",
    beforeQueryExecution: (queryContext, { sql: text }) => {
      if (trace.getActiveSpan()?.isRecording() === true) {
        const operation = /^\s*(?<word>[A-Za-z]+)/u.exec(text)?.groups?.["word"] ?? "statement";
        spans.set(
          queryContext,
          tracer.startSpan(operation.toUpperCase(), {
            kind: SpanKind.CLIENT,
            attributes: {
              "db.system.name": "postgresql",
              "db.operation.name": operation.toUpperCase(),
              "db.query.text": text.replaceAll(/\s+/gu, " ").trim(),
            },
          }),
        );
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

/*
 * Imported only if tracing is on, because the SDK takes time and memory.
 */

/** The collector gets the last spans in this time, or they are lost. */
const SHUTDOWN_TIMEOUT_MS = 2000;

const KINDS = {
  server: SpanKind.SERVER,
  client: SpanKind.CLIENT,
  internal: SpanKind.INTERNAL,
};

const createSampler = ({
  OTEL_TRACES_SAMPLER: name,
  OTEL_TRACES_SAMPLER_ARG: ratio,
}: Config): Sampler => {
  const [, root = name] = /^parentbased_(?<root>\w+)$/u.exec(name) ?? [];
  const roots: Readonly<Record<string, () => Sampler>> = {
    always_on: () => new AlwaysOnSampler(),
    always_off: () => new AlwaysOffSampler(),
    traceidratio: () => new TraceIdRatioBasedSampler(ratio),
  };
  const sampler = roots[root]?.() ?? new AlwaysOnSampler();
  return root === name ? sampler : new ParentBasedSampler({ root: sampler });
};

const format = ({ traceId, spanId, traceFlags }: SpanContext): TraceParent =>
  `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;

/** Returns a context that continues a trace; a malformed value begins a new one, as the standard says. */
const contextOf = (parent: TraceParent | null | undefined): Context => {
  if (parent === undefined) {
    return context.active();
  }
  const remote = parent === null ? null : parseTraceParent(parent);
  return remote === null
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, { ...remote, isRemote: true });
};

const linksOf = (links: readonly TraceParent[]) =>
  links.flatMap((link) => {
    const linked = parseTraceParent(link);
    return linked === null ? [] : [{ context: linked }];
  });

/** Marks a span as failed by the class of the error: its message may contain personal data. */
const recordError = (span: Span, error: unknown): void => {
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.setAttribute("error.type", error instanceof Error ? error.constructor.name : typeof error);
};

const reportLoss: Tracing["reportLoss"] = (error) =>
  diag.warn(`a trace ends early: ${error instanceof Error ? error.message : String(error)}`);

/** Logs the SDK's own messages. */
const logTo: RunningTracing["logTo"] = (logger) => {
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
};

/** Starts the SDK, which exports to the collector that `OTEL_EXPORTER_OTLP_ENDPOINT` names. */
export const openTelemetry = (config: Config, program: string): RunningTracing => {
  const provider = new TracerProvider({
    sampler: createSampler(config),
    resource: defaultResource()
      .merge(
        resourceFromAttributes({
          "service.name": `impact-${program}`,
          "service.namespace": "impact-tracking-service",
        }),
      )
      .merge(detectResources({ detectors: [envDetector] })),
    spanProcessors: [
      new BatchSpanProcessor({
        exporter: new OTLPTraceExporter(),
        scheduledDelayMillis: config.OTEL_BSP_SCHEDULE_DELAY,
      }),
    ],
  });
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());
  const tracer = provider.getTracer("impact-tracking-service");

  const run: Tracing["run"] = (
    name,
    { kind = "internal", attributes = {}, parent, links = [] },
    work,
  ) =>
    tracer.startActiveSpan(
      name,
      { kind: KINDS[kind], attributes, links: linksOf(links) },
      contextOf(parent),
      async (span) => {
        try {
          return await work({
            traceParent: format(span.spanContext()),
            rename: (newName) => span.updateName(newName),
            setAttributes: (more) => span.setAttributes(more),
            fail: () => span.setStatus({ code: SpanStatusCode.ERROR }),
          });
        } catch (error) {
          recordError(span, error);
          throw error;
        } finally {
          span.end();
        }
      },
    );

  return {
    run,
    runUntraced: (work) => context.with(ROOT_CONTEXT, work),
    current: () => {
      const active = trace.getActiveSpan()?.spanContext();
      return active !== undefined && (active.traceFlags & TraceFlags.SAMPLED) !== 0
        ? format(active)
        : null;
    },
    link: (span) => trace.getActiveSpan()?.addLinks(linksOf([span])),
    reportLoss,
    logFields: () => {
      const active = trace.getActiveSpan()?.spanContext();
      return active === undefined ? {} : { trace_id: active.traceId, span_id: active.spanId };
    },
    statementSpans: createStatementSpans(tracer, recordError),
    logTo,
    stop: async () => {
      const timeout = Promise.withResolvers<void>();
      const timer = setTimeout(timeout.resolve, SHUTDOWN_TIMEOUT_MS);
      await Promise.race([provider.shutdown().catch(reportLoss), timeout.promise]);
      clearTimeout(timer);
    },
  };
};
