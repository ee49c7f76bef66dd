import type { CommonQueryMethods } from "slonik";
import { sumOtherEvents } from "../../../db/billing/meterEventReports.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { compareUsage, OTHER_EVENT_IN_FLIGHT } from "../../../domain/billing/compareUsage.ts";
import type { AttemptOutcome } from "../../../domain/billing/decideNextStep.ts";
import { minuteOf } from "../../../domain/billing/usage.ts";
import type { BillingProcessor } from "../../../providers/billing/processor.ts";
import { UsageUnreadableError } from "../../../providers/billing/processor.ts";

/** What the processor's sums show. It is valid only while the version of the minute's other events is the same. */
export type DeliveryCheck = {
  readonly outcome: AttemptOutcome;
  readonly othersVersion: string;
};

/**
 * Checks with the processor's sums whether it has an event.
 * @throws Error if the processor cannot be reached
 */
export const checkDelivery = async (
  processor: BillingProcessor,
  db: CommonQueryMethods,
  event: StoredMeterEvent,
  { now, signal }: { readonly now: Date; readonly signal: AbortSignal },
): Promise<DeliveryCheck> => {
  const minute = minuteOf(event.second);
  const { accountId, meter, customerId } = event;
  const others = await sumOtherEvents(db, [event], minute);
  const othersVersion = others.version;
  if (others.isSending) {
    return { outcome: OTHER_EVENT_IN_FLIGHT, othersVersion };
  }
  try {
    const theirs = await processor.sumUsage({ accountId, customerId }, meter, minute, signal);
    const lastSentAt = event.settledAt ?? event.inDoubtSince;
    const outcome = compareUsage(
      { quantity: event.quantity, lastSentAt },
      theirs,
      others,
      processor.usageLagMs,
      now,
    );
    return { outcome, othersVersion };
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      const reason = `the processor does not report its usage: ${error.message}`;
      return { outcome: { kind: "unclear", reason }, othersVersion };
    }
    throw error;
  }
};
