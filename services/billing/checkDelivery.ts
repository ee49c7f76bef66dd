import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import { sumOtherEvents } from "../../db/billing/meterEventReports.ts";
import type { BillingProcessor } from "../../providers/billing/processor.ts";
import { UsageUnreadableError } from "../../providers/billing/processor.ts";

/**
 * Whether an event reached the processor, as far as its own record tells; `early` when it may not tell all yet. An answer
 * holds for as long as the other events of its minute stay at their version.
 */
export type Delivery =
  | { readonly kind: "delivered" | "absent"; readonly othersVersion: string }
  | { readonly kind: "unclear"; readonly reason: string }
  | { readonly kind: "early"; readonly reason: string; readonly afterMs: number };

const ASK_AGAIN_MS = 15_000;

/** The minute that the processor's sums tell of, and that an event's second lies in; half-open, in unix seconds. */
export const minuteOf = (second: number): { readonly start: number; readonly end: number } => {
  const start = second - (second % 60);
  return { start, end: start + 60 };
};

/**
 * Compares the processor's usage of the event's minute with what was delivered in it without the event. Sums lag, so
 * nothing is concluded from usage that is missing while something in that minute was sent lately; nor from any while
 * another event of the minute is being sent.
 * @throws Error when the processor cannot be asked now
 */
export const checkDelivery = async (
  processor: BillingProcessor,
  db: CommonQueryMethods,
  event: StoredMeterEvent,
  { now, signal }: { readonly now: Date; readonly signal: AbortSignal },
): Promise<Delivery> => {
  const span = minuteOf(event.second);
  const { accountId, meter, customerId } = event;
  const others = await sumOtherEvents(db, event, span);
  if (others.isSending) {
    return {
      kind: "early",
      reason: "another event of that minute is being sent",
      afterMs: ASK_AGAIN_MS,
    };
  }
  let theirs: number;
  try {
    theirs = await processor.sumUsage(
      { accountId, customerId, subscriptionId: null },
      meter,
      span,
      signal,
    );
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      return { kind: "unclear", reason: `the processor does not tell: ${error.message}` };
    }
    throw error;
  }
  const { delivered: ours, version: othersVersion } = others;
  const lagMsAfter = (sentAt: Date | null): number =>
    sentAt === null ? 0 : Math.max(0, sentAt.getTime() + processor.usageLagMs - now.getTime());
  const othersLagMs = lagMsAfter(others.lastDeliveredAt);
  const lagMs = Math.max(othersLagMs, lagMsAfter(event.settledAt));
  if (theirs === ours + event.quantity && othersLagMs === 0) {
    return { kind: "delivered", othersVersion };
  }
  if (lagMs > 0) {
    return {
      kind: "early",
      reason: `the processor's sums may lag for another ${Math.ceil(lagMs / 60_000)} minutes`,
      afterMs: lagMs,
    };
  }
  return theirs === ours
    ? { kind: "absent", othersVersion }
    : {
        kind: "unclear",
        reason: `the processor has ${theirs} units in that minute; ${ours} were delivered without this event's ${event.quantity}`,
      };
};
