import type { AttemptOutcome } from "./decideNextStep.ts";

const CHECK_AGAIN_MS = 15_000;

/** While another event of the minute is being sent, the processor's sum proves nothing. */
export const OTHER_EVENT_IN_FLIGHT: AttemptOutcome = {
  kind: "early",
  reason: "another event of that minute is being sent",
  afterMs: CHECK_AGAIN_MS,
};

/**
 * Concludes from the processor's sum of a minute whether it has an event. The sums lag, so missing usage proves nothing
 * until everything sent in that minute must be in them.
 * @param theirs the processor's units in the event's minute
 * @param others the units delivered in that minute without the event, and when the last were delivered
 * @param usageLagMs how long the processor's sums may lag
 */
export const compareUsage = (
  event: { readonly quantity: number; readonly settledAt: Date | null },
  theirs: number,
  others: { readonly delivered: number; readonly lastDeliveredAt: Date | null },
  usageLagMs: number,
  now: Date,
): AttemptOutcome => {
  const lagMsAfter = (sentAt: Date | null): number =>
    sentAt === null ? 0 : Math.max(0, sentAt.getTime() + usageLagMs - now.getTime());
  const othersLagMs = lagMsAfter(others.lastDeliveredAt);
  const lagMs = Math.max(othersLagMs, lagMsAfter(event.settledAt));
  if (theirs === others.delivered + event.quantity && othersLagMs === 0) {
    return { kind: "delivered", duplicate: true };
  }
  if (lagMs > 0) {
    return {
      kind: "early",
      reason: `the processor's sums may lag for another ${Math.ceil(lagMs / 60_000)} minutes`,
      afterMs: lagMs,
    };
  }
  return theirs === others.delivered
    ? { kind: "absent" }
    : {
        kind: "unclear",
        reason: `the processor has ${theirs} units in that minute, but ${others.delivered} were delivered without this event's ${event.quantity}`,
      };
};
