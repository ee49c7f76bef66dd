import type { CommonQueryMethods } from "slonik";
import { listTraceParents } from "./traceContexts.sql.ts";
import type { Tracing } from "../../../runtime/tracing.rules.ts";

/** A busy account has thousands of registrations in an event. */
const MAXIMUM_LINKS = 32;

/**
 * Records a span for the sending of a meter event, if tracing is on. The event of one request belongs to the request's
 * trace. The event of several has a separate trace with links to them.
 */
export const traceSending = async <Result>(
  { db, tracing }: { readonly db: CommonQueryMethods; readonly tracing?: Tracing | undefined },
  meterEventId: bigint,
  send: () => Promise<Result>,
): Promise<Result> => {
  if (tracing === undefined) {
    return send();
  }
  const requests = await listTraceParents(db, meterEventId, MAXIMUM_LINKS).catch(
    (error: unknown) => {
      // Billing does not depend on traces.
      tracing.reportLoss(error);
      return [];
    },
  );
  const [only] = requests;
  return tracing.run(
    "send usage",
    {
      parent: requests.length === 1 ? (only ?? null) : null,
      links: requests.length === 1 ? [] : requests,
      attributes: { "impact.meter_event.id": String(meterEventId) },
    },
    send,
  );
};
