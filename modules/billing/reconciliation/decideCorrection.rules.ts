import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { documentFor } from "./closeUsage.rules.ts";
import type { HandSettlement } from "./closeUsage.rules.ts";
import { namedEvents } from "../meterEvents.rules.ts";
import { ACCEPTED_AGE_MS } from "../usage.rules.ts";

/**
 * What happens to a minute in which the processor's sum differs from ours after a failover.
 * - `send`: a meter event takes the units back, or bills lost refunds again.
 * - `settle`: the operator's document has done so.
 * - `document_needed`: the processor puts such an event on no invoice, so it needs a credit note or an invoice item.
 * - `skip`: the processor has less, and the operator has not said that refunds were lost.
 * - `wait`: the sum may still change. The command must be repeated.
 */
export type CorrectionAction = "send" | "settle" | "document_needed" | "skip" | "wait";

export type DecidedCorrection = {
  readonly action: CorrectionAction;
  readonly reason: string | null;
};

/** Leaves the sender a day to send the event. */
const RESERVE_MS = DAY_MS;

/**
 * Decides how to correct a minute.
 * @param minute.quantity the processor's units minus ours; not 0
 */
export const decideCorrection = (
  minute: {
    readonly quantity: number;
    readonly second: number;
    /** Whether events or facts of the minute are not settled. */
    readonly isPending: boolean;
    /** Failed and waived events that must be decided first, because the difference may be their usage. */
    readonly openIds: readonly string[];
    readonly lastDeliveredAt: Date | null;
    /** Whether the invoice of its billing period may have been finalized. */
    readonly isInvoiced: boolean;
  },
  {
    includeLostRefunds,
    document,
  }: { readonly includeLostRefunds: boolean; readonly document: HandSettlement | null },
  usageLagMs: number,
  now: Date,
): DecidedCorrection => {
  const { quantity, second, isPending, openIds, lastDeliveredAt, isInvoiced } = minute;
  if (isPending) {
    return { action: "wait", reason: "usage of this minute is pending" };
  }
  if (openIds.length > 0) {
    return {
      action: "wait",
      reason: `the processor may have ${namedEvents(openIds)}; retry first, with --assume if the result is unclear, or settle what was billed by hand or must never be billed`,
    };
  }
  const visibleAtMs = lastDeliveredAt === null ? 0 : lastDeliveredAt.getTime() + usageLagMs;
  if (visibleAtMs > now.getTime()) {
    return {
      action: "wait",
      reason: `the processor's sum may lag until ${new Date(visibleAtMs).toISOString()}`,
    };
  }
  if (quantity < 0 && !includeLostRefunds) {
    return {
      action: "skip",
      reason:
        "a refund was lost (--include-lost-refunds), or the processor has lost usage (reopen)",
    };
  }
  const isTooOld =
    now.getTime() - second * 1000 > (ACCEPTED_AGE_MS.stripe ?? Infinity) - RESERVE_MS;
  if (!isTooOld && !isInvoiced) {
    return { action: "send", reason: null };
  }
  const kind = documentFor(-quantity);
  return document?.kind === kind
    ? { action: "settle", reason: `${kind.replace("_", " ")} ${document.reference}` }
    : {
        action: "document_needed",
        reason: `${isTooOld ? "older than Stripe corrects" : "its billing period has ended"}; give --${kind.replace("_", "-")}`,
      };
};
