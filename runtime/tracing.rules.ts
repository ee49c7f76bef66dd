/** A position in a trace, as the header `traceparent` of W3C Trace Context. */
export type TraceParent = string;

type SpanOptions = {
  readonly kind?: "server" | "client" | "internal";
  /** Never keys, personal data or what a client sent. */
  readonly attributes?: Readonly<Record<string, string | number>>;
  /** The span that contains this one: the active one if it is omitted, none if it is null. */
  readonly parent?: TraceParent | null;
  /** Spans that caused this one. */
  readonly links?: readonly TraceParent[];
};

/** A span while its work runs. */
type ActiveSpan = {
  readonly traceParent: TraceParent;
  readonly rename: (name: string) => void;
  readonly setAttributes: (attributes: Readonly<Record<string, string | number>>) => void;
  /** Marks the span as failed. An error that its work throws does so by itself. */
  readonly fail: () => void;
};

/** Records what a request causes. A context has none if tracing is off. */
export type Tracing = {
  /** Runs work in a span, which is the active one meanwhile. */
  readonly run: <Result>(
    name: string,
    options: SpanOptions,
    work: (span: ActiveSpan) => Promise<Result>,
  ) => Promise<Result>;
  /** Runs work that belongs to no trace. */
  readonly runUntraced: <Result>(work: () => Result) => Result;
  /** Returns the active span; null if there is none, or if its trace is not sampled. */
  readonly current: () => TraceParent | null;
  /** Adds a span to those that the active one is related to. */
  readonly link: (span: TraceParent) => void;
  /** Reports an error that only ends a trace. */
  readonly reportLoss: (error: unknown) => void;
};
