import type { DatabaseTransactionConnection } from "slonik";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import type { MeterEventState } from "../../domain/billing/meterEvents.ts";
import { usageEventOf } from "../../domain/billing/meterEvents.ts";
import { timeOf } from "../../domain/billing/usage.ts";
import { recordEvent } from "../events/recordEvent.ts";

/** Records the event that clients receive for a change of a meter event's state, if there is one. */
export const recordUsageEvent = async (
  transaction: DatabaseTransactionConnection,
  before: Pick<StoredMeterEvent, "accountId" | "mode" | "kind" | "quantity" | "second" | "state">,
  after: MeterEventState,
  now: Date,
): Promise<void> => {
  const type = usageEventOf(before.state, after);
  if (type !== null) {
    await recordEvent(transaction, before, now, {
      type,
      data: {
        kind: before.kind,
        count: before.quantity,
        registered_at: timeOf(before.second).toISOString(),
      },
    });
  }
};
