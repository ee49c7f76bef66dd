import { context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from "@opentelemetry/api";
import type { Attributes, Context, Span } from "@opentelemetry/api";

/*
 * Spans of requests, batches and calls of other services. Without a collector, OpenTelemetry's API makes spans that record
 * nothing. A span never has keys, personal data or what a client sent.
 */

/** A position in a trace, as the header `traceparent` of W3C Trace Context. */
export type TraceParent = string;

const TRACE_PARENT =
  /^(?!ff)[\da-f]{2}-(?<traceId>[\da-f]{32})-(?<spanId>[\da-f]{16})-(?<flags>[\da-f]{2})(?:-.*)?$/u;

/** Returns a context that continues a trace; an absent or malformed value begins a new one, as the standard says. */
export const continueTrace = (parent: TraceParent | undefined): Context => {
  const { traceId, spanId, flags } = TRACE_PARENT.exec(parent ?? "")?.groups ?? {};
  return traceId === undefined || spanId === undefined
    ? ROOT_CONTEXT
    : trace.setSpanContext(ROOT_CONTEXT, {
        traceId,
        spanId,
        traceFlags: Number.parseInt(flags ?? "0", 16),
        isRemote: true,
      });
};

/** Returns the span that is active; undefined if there is none, or if its trace is not sampled. */
export const activeSpan = (): Span | undefined => {
  const active = trace.getActiveSpan();
  return active?.isRecording() === true ? active : undefined;
};

/** Returns the ids of the active span, for lines of the log. */
export const activeSpanFields = (): Readonly<Record<string, string>> => {
  const active = trace.getActiveSpan()?.spanContext();
  return active === undefined ? {} : { trace_id: active.traceId, span_id: active.spanId };
};

/** Returns the active span for another process; undefined as `activeSpan`. */
export const activeTraceParent = (): TraceParent | undefined => {
  const active = activeSpan()?.spanContext();
  return active && `00-${active.traceId}-${active.spanId}-01`;
};

/** Marks a span as failed by the class of the error: its message may contain personal data. */
const recordError = (span: Span, error: unknown): void => {
  span.setStatus({ code: SpanStatusCode.ERROR });
  span.setAttribute("error.type", error instanceof Error ? error.constructor.name : typeof error);
};

/** Runs work in a span, which is active until the work ends. */
export const inSpan = <Result>(
  name: string,
  {
    kind = SpanKind.INTERNAL,
    attributes = {},
    parent = context.active(),
    links = [],
  }: {
    readonly kind?: SpanKind;
    readonly attributes?: Attributes;
    readonly parent?: Context;
    readonly links?: readonly Span[];
  },
  work: (span: Span) => Promise<Result>,
): Promise<Result> =>
  trace
    .getTracer("impact-tracking-service")
    .startActiveSpan(
      name,
      { kind, attributes, links: links.map((linked) => ({ context: linked.spanContext() })) },
      parent,
      async (span) => {
        try {
          return await work(span);
        } catch (error) {
          recordError(span, error);
          throw error;
        } finally {
          span.end();
        }
      },
    );
