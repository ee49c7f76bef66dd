import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../db/meterEvents.ts";
import { sumDelivered } from "../db/meterEvents.ts";
import type { BillingProcessor } from "../providers/billing/processor.ts";

/** Whether an event reached the processor, as far as its own record tells. */
export type Delivery =
  | { readonly kind: "delivered" | "absent" }
  | { readonly kind: "unclear"; readonly reason: string };

/**
 * Compares the processor's usage of the event's minute with what was delivered in it without the event. Nothing else of
 * the stream may be under way meanwhile.
 * @throws Error when the processor cannot be asked
 */
export const checkDelivery = async (
  processor: BillingProcessor,
  db: CommonQueryMethods,
  event: StoredMeterEvent,
  signal: AbortSignal,
): Promise<Delivery> => {
  const start = event.second - (event.second % 60);
  const span = { start, end: start + 60 };
  const { accountId, mode, meter, customerId } = event;
  const theirs = await processor.usageIn(
    { accountId, customerId, subscriptionId: null },
    meter,
    span,
    signal,
  );
  const ours = await sumDelivered(db, {
    processor: event.processor,
    customerId,
    stream: { accountId, mode, meter },
    without: event.id,
    ...span,
  });
  if (theirs === ours) {
    return { kind: "absent" };
  }
  return theirs === ours + event.quantity
    ? { kind: "delivered" }
    : {
        kind: "unclear",
        reason: `the processor has ${theirs} units in that minute; ${ours} were delivered without this event's ${event.quantity}`,
      };
};
