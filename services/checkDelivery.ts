import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../db/meterEvents.ts";
import { sumDelivered } from "../db/meterEvents.ts";
import type { BillingProcessor } from "../providers/billing/processor.ts";
import { UsageUnreadableError } from "../providers/billing/processor.ts";

/** Whether an event reached the processor, as far as its own record tells; `early` when it may not tell all yet. */
export type Delivery =
  | { readonly kind: "delivered" | "absent" }
  | { readonly kind: "unclear"; readonly reason: string }
  | { readonly kind: "early"; readonly reason: string; readonly afterMs: number };

/**
 * Compares the processor's usage of the event's minute with what was delivered in it without the event. Nothing else of
 * the stream may be under way meanwhile. Sums lag, so nothing is concluded from usage that is missing while something in
 * that minute was sent lately.
 * @throws Error when the processor cannot be asked now
 */
export const checkDelivery = async (
  processor: BillingProcessor,
  db: CommonQueryMethods,
  event: StoredMeterEvent,
  { now, signal }: { readonly now: Date; readonly signal: AbortSignal },
): Promise<Delivery> => {
  const start = event.second - (event.second % 60);
  const span = { start, end: start + 60 };
  const { accountId, mode, meter, customerId } = event;
  let theirs: number;
  try {
    theirs = await processor.usageIn(
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
  const others = await sumDelivered(db, {
    processor: event.processor,
    customerId,
    stream: { accountId, mode, meter },
    without: event.id,
    ...span,
  });
  const ours = others.quantity;
  const lagMsAfter = (sentAt: Date | null): number =>
    sentAt === null ? 0 : Math.max(0, sentAt.getTime() + processor.usageLagMs - now.getTime());
  const othersLagMs = lagMsAfter(others.lastSettledAt);
  const lagMs = Math.max(othersLagMs, lagMsAfter(event.settledAt));
  if (theirs === ours + event.quantity && othersLagMs === 0) {
    return { kind: "delivered" };
  }
  if (lagMs > 0) {
    return {
      kind: "early",
      reason: `the processor's sums may lag for another ${Math.ceil(lagMs / 60_000)} minutes`,
      afterMs: lagMs,
    };
  }
  return theirs === ours
    ? { kind: "absent" }
    : {
        kind: "unclear",
        reason: `the processor has ${theirs} units in that minute; ${ours} were delivered without this event's ${event.quantity}`,
      };
};
