import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { listEventsInDoubt } from "../../../db/billing/reconciliation/eventsInDoubt.ts";
import type { CustomerStream } from "../../../db/billing/reconciliation/reportedStreams.ts";
import { mayBeAt } from "../../../domain/billing/repair/customersInDoubt.ts";
import type { Span } from "../../../domain/billing/usage.ts";

/**
 * Returns the usage that must be decided before a difference is corrected or acknowledged: it may be the difference, and a
 * later retry could send it.
 */
export const findOpenUsage = async (
  db: CommonQueryMethods,
  stream: CustomerStream,
  minute: Span,
): Promise<readonly StoredMeterEvent[]> => {
  const events = await listEventsInDoubt(db, stream, minute);
  return events.filter((event) => mayBeAt(stream.customerId, event, event.currentCustomerId));
};
