import type { DatabaseTransactionConnection } from "slonik";
import type { StoredMeterEvent, MeterEventState } from "./meterEvents.rules.ts";
import { usageEventOf } from "./meterEvents.rules.ts";
import { timeOf } from "./usage.rules.ts";
import { recordEvent } from "../events/recordEvent.ts";

/** Records the event that clients receive for a change of a meter event's state, if there is one. */
export const recordUsageEvent = async (
  transaction: DatabaseTransactionConnection,
  before: Pick<
    StoredMeterEvent,
    "accountId" | "mode" | "kind" | "quantity" | "second" | "state" | "failure"
  >,
  after: MeterEventState,
  now: Date,
): Promise<void> => {
  const { failure, state } = before;
  // Of an open difference, and of a refund that waits for its usage, no client was told.
  const isUnknown = failure === "difference" || failure === "waits_for_usage";
  const type = isUnknown ? null : usageEventOf(state, after);
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
