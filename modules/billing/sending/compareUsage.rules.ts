import { counted } from "../../../runtime/counted.rules.ts";
import type { AttemptOutcome } from "./decideNextStep.rules.ts";

const CHECK_AGAIN_MS = 15_000;

/** While another event of the minute is being sent, the processor's sum proves nothing. */
export const OTHER_EVENT_IN_FLIGHT: AttemptOutcome = {
  kind: "early",
  reason: "another event of that minute is being sent",
  afterMs: CHECK_AGAIN_MS,
};

/** Returns the part of an event that unexplained units can be: those of the same sign, up to its quantity. */
const shareOf = (quantity: number, found: number): number =>
  Math.sign(quantity) === Math.sign(found)
    ? Math.sign(quantity) * Math.min(Math.abs(quantity), Math.abs(found))
    : 0;

/** How much of an event the processor has, if everything that was sent is in its sums. */
export type ComparedOutcome = Extract<
  AttemptOutcome,
  { readonly kind: "delivered" | "partial" | "absent" }
>;

const outcomeOf = (quantity: number, share: number): ComparedOutcome => {
  if (share === quantity) {
    return { kind: "delivered" };
  }
  return share === 0 ? { kind: "absent" } : { kind: "partial", acceptedQuantity: share };
};

/**
 * Concludes from the processor's sum of a minute how much of an event it has. Units that neither another event nor the
 * acknowledged drift explains count as this event's, up to its quantity; a surplus remains visible as drift. The sums lag,
 * so missing usage proves nothing until everything sent in that minute must be in them. Units of the opposite sign show that
 * the processor lacks other usage, or has other refunds; that is unclear, because the event may be among what it lacks.
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
  const outcome = outcomeOf(event.quantity, shareOf(event.quantity, found));
  if (outcome.kind === "delivered" && othersLagMs === 0) {
    return outcome;
  }
  if (lagMs > 0) {
    return {
      kind: "early",
      reason: `the processor's sums may lag for another ${counted(Math.ceil(lagMs / 60_000), "minute")}`,
      afterMs: lagMs,
    };
  }
  return found !== 0 && outcome.kind === "absent"
    ? {
        kind: "unclear",
        reason: `the processor has ${counted(theirs, "unit")} in that minute, but ${counted(others.explained, "was", "were")} delivered or acknowledged without this event's ${event.quantity}`,
      }
    : outcome;
};

/**
 * Concludes how much the processor has of the events of a minute that may have been sent. Its units that neither delivered
 * events nor acknowledged drift explain are allotted to them in their order. Unlike for `compareUsage`, an event is absent if
 * the units have the opposite sign: all events of the minute that are not delivered are compared together, and later checks
 * count what is sent now, so the minute's sum is right in the end.
 * @param quantities of the events, usage before refunds
 * @param found the unexplained units, if everything that was sent is in the processor's sums
 */
export const compareEvents = (
  quantities: readonly number[],
  found: number,
): readonly ComparedOutcome[] => {
  let rest = found;
  return quantities.map((quantity) => {
    const share = shareOf(quantity, rest);
    rest -= share;
    return outcomeOf(quantity, share);
  });
};
