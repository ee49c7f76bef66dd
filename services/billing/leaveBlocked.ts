import type { DatabaseTransactionConnection } from "slonik";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import { redispatchRefunds, releaseHeldRefunds } from "../../db/billing/usageFacts.ts";
import type { MeterEventState } from "../../domain/billing/meterEvents.ts";
import { recordUsageEvent } from "./recordUsageEvent.ts";

/**
 * Does what follows from an event that a comparison has blocked, and that gets another state. Must run under the stream's
 * lock, and before the event's facts are released.
 */
export const leaveBlocked = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  after: MeterEventState,
  now: Date,
): Promise<void> => {
  await recordUsageEvent(transaction, event, after, now);
  // The workflows of refunds in a blocked event fail.
  await redispatchRefunds(transaction, event.id);
  // Blocking the event held its refunds, and a retry cannot release them: the event is no longer failed.
  await releaseHeldRefunds(transaction, event.id);
};
