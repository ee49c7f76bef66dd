import { counted } from "../counted.ts";
import type { AttemptOutcome } from "./decideNextStep.ts";

const CHECK_AGAIN_MS = 15_000;

/** While another event of the minute is being sent, the processor's sum proves nothing. */
export const OTHER_EVENT_IN_FLIGHT: AttemptOutcome = {
  kind: "early",
  reason: "another event of that minute is being sent",
  afterMs: CHECK_AGAIN_MS,
};

/**
 * Concludes from the processor's sum of a minute how much of an event it has. Units that neither another event nor the
 * acknowledged drift explains count as this event's, up to its quantity; a surplus remains visible as drift. The sums lag,
 * so missing usage proves nothing until everything sent in that minute must be in them.
 * @param event its quantity, and the time after which it was not sent any more
 * @param theirs the processor's units in the event's minute
 * @param others the units delivered in that minute without the event plus its acknowledged drift, and when the last were
 * delivered
 * @param usageLagMs how long the processor's sums may lag
 */
export const compareUsage = (
  event: { readonly quantity: number; readonly lastSentAt: Date | null },
  theirs: number,
  others: { readonly explained: number; readonly lastDeliveredAt: Date | null },
  usageLagMs: number,
  now: Date,
): AttemptOutcome => {
  const lagMsAfter = (sentAt: Date | null): number =>
    sentAt === null ? 0 : Math.max(0, sentAt.getTime() + usageLagMs - now.getTime());
  const othersLagMs = lagMsAfter(others.lastDeliveredAt);
  const lagMs = Math.max(othersLagMs, lagMsAfter(event.lastSentAt));
  const found = theirs - others.explained;
  const foundShare = found / event.quantity;
  if (foundShare >= 1 && othersLagMs === 0) {
    return { kind: "delivered" };
  }
  if (lagMs > 0) {
    return {
      kind: "early",
      reason: `the processor's sums may lag for another ${counted(Math.ceil(lagMs / 60_000), "minute")}`,
      afterMs: lagMs,
    };
  }
  if (foundShare > 0) {
    return { kind: "partial", acceptedQuantity: found };
  }
  return found === 0
    ? { kind: "absent" }
    : {
        kind: "unclear",
        reason: `the processor has ${counted(theirs, "unit")} in that minute, but ${counted(others.explained, "was", "were")} delivered or acknowledged without this event's ${event.quantity}`,
      };
};
