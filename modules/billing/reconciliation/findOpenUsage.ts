import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { listEventsInDoubt } from "./eventsInDoubt.sql.ts";
import type { CustomerStream } from "./reportedStreams.sql.ts";
import { mayBeAt } from "./usageInDoubt.rules.ts";
import type { Span } from "../usage.rules.ts";

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
