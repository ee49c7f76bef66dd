import type { Tracing, TraceParent } from "../../runtime/tracing.rules.ts";

/** The span of a request that waits in a batch, and that of the batch once it is written. */
type RequestTrace = {
  readonly request: TraceParent;
  batch: TraceParent | null;
};

/** An entry of a batch; `trace` is absent if tracing is off or the trace is not sampled. */
export type TracedEntry = { readonly trace?: RequestTrace | undefined };

/** Returns the field of an entry that names the active span. */
const traceOfRequest = (tracing: Tracing): TracedEntry => {
  const request = tracing.current();
  return request === null ? {} : { trace: { request, batch: null } };
};

/**
 * Returns a writer of batches that records a span for each batch. A batch of one request belongs to the request's trace. A
 * batch of several has a separate trace with links to them, and they get links to it: none of them causes it alone.
 */
export const traceBatches =
  <Entry extends TracedEntry, Options, Result>(
    tracing: Tracing,
    write: (entries: readonly Entry[], options: Options) => Promise<Result>,
  ): ((entries: readonly Entry[], options: Options) => Promise<Result>) =>
  async (entries, options) => {
    const traces = entries.flatMap(({ trace }) => (trace === undefined ? [] : [trace]));
    const isAlone = entries.length === 1;
    return tracing.run(
      "write batch",
      {
        parent: isAlone ? (traces[0]?.request ?? null) : null,
        links: isAlone ? [] : traces.map(({ request }) => request),
        attributes: { "impact.batch.size": entries.length },
      },
      ({ traceParent }) => {
        if (!isAlone) {
          for (const trace of traces) {
            trace.batch = traceParent;
          }
        }
        return write(entries, options);
      },
    );
  };

/** Waits for an entry to be written, and links the request's span to that of its batch. */
const linkBatch = async <Result>(
  tracing: Tracing,
  { trace }: TracedEntry,
  written: Promise<Result>,
): Promise<Result> => {
  const result = await written;
  if (trace !== undefined && trace.batch !== null) {
    tracing.link(trace.batch);
  }
  return result;
};

/** Submits an entry. If tracing is on, the request's span is linked to that of the entry's batch. */
export const submitTraced = <Entry extends object, Result>(
  tracing: Tracing | undefined,
  submit: (entry: Entry & TracedEntry) => Promise<Result>,
  entry: Entry,
): Promise<Result> => {
  if (tracing === undefined) {
    return submit(entry);
  }
  const traced = { ...entry, ...traceOfRequest(tracing) };
  return linkBatch(tracing, traced, submit(traced));
};

/** Returns work that belongs to the request that asked for it, although it runs in another one's turn. */
export const traceJob = <Result>(
  tracing: Tracing,
  size: number,
  work: () => Promise<Result>,
): (() => Promise<Result>) => {
  const parent = tracing.current();
  return () =>
    tracing.run("write batch", { parent, attributes: { "impact.batch.size": size } }, work);
};
