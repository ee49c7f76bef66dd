import { SpanKind, trace } from "@opentelemetry/api";
import type { Span, Tracer } from "@opentelemetry/api";
import type { Interceptor, QueryContext } from "slonik";

/**
 * Records a span for each statement that belongs to a trace. The text of a statement has placeholders and no values.
 * Statements of the programs' own loops belong to no trace.
 */
export const createStatementSpans = (
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
