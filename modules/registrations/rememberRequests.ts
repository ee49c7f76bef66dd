import type { CommonQueryMethods } from "slonik";
import { insertTraceContexts } from "../billing/sending/traceContexts.sql.ts";
import type { Tracing } from "../../runtime/tracing.rules.ts";
import type { TracedEntry } from "../../db/batching/traceBatches.ts";

/**
 * Records which requests made registrations, so that the traces continue when the usage is reported. It runs beside the
 * requests; if it fails, only the traces end.
 */
export const rememberRequests = (
  { db, tracing }: { readonly db: CommonQueryMethods; readonly tracing: Tracing },
  entries: readonly (TracedEntry & { readonly id: string })[],
): void => {
  const contexts = entries.flatMap(({ id, trace }) =>
    trace === undefined ? [] : [{ recordId: id, traceParent: trace.request }],
  );
  if (contexts.length > 0) {
    insertTraceContexts(db, contexts).catch(tracing.reportLoss);
  }
};
