import type { DatabaseTransactionConnection } from "slonik";
import type { StoredMeterEvent } from "./meterEvents.sql.ts";
import type { MeterEventState } from "./meterEvents.rules.ts";
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
  // An open difference is nothing that a client has registered, or refunded.
  const type = before.failure === "difference" ? null : usageEventOf(before.state, after);
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
