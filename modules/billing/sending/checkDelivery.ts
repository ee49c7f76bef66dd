import type { CommonQueryMethods } from "slonik";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { readMinuteUsage } from "../reconciliation/minuteUsage.sql.ts";
import type { MinuteUsage } from "../reconciliation/minuteUsage.sql.ts";
import { streamOfEvent } from "../reconciliation/reportedStreams.sql.ts";
import { compareUsage, OTHER_EVENT_IN_FLIGHT } from "./compareUsage.rules.ts";
import { isToBeChecked } from "./decideNextStep.rules.ts";
import type { AttemptOutcome } from "./decideNextStep.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import type { BillingProcessor } from "../processor.ts";
import { UsageUnreadableError } from "../processor.ts";

/** What the processor's sums show. It is valid only while the version of the minute's other events is the same. */
export type DeliveryCheck = {
  readonly outcome: AttemptOutcome;
  readonly othersVersion: string;
  /** Whether drift of the minute was acknowledged. */
  readonly isAcknowledged: boolean;
};

type SendingUsage = MinuteUsage["sending"][number];

/**
 * Returns whether the check of an event must wait for another one that is being sent. Two events that both have to be checked
 * would wait for each other for ever, so the first one is checked while the second waits, once the second is in doubt. Units
 * that the first takes from it are not lost: they count as delivered in the check of the second, whose usage is then sent under
 * a new identifier. Its present one may not be used again, because Stripe would report a duplicate of the units that were
 * taken. A retry waits for all events, because the end of an attempt does not notice what a retry has decided.
 */
const mustWaitFor = (event: StoredMeterEvent, other: SendingUsage): boolean =>
  event.state !== "sending" || other.id < event.id || other.inDoubtSince === null;

/** Returns whether an event has to be in doubt so that the check of an earlier one need not wait for it. */
const holdsUpCheck = (event: StoredMeterEvent, other: SendingUsage, now: Date): boolean =>
  event.state === "sending" &&
  event.inDoubtSince === null &&
  other.id < event.id &&
  isToBeChecked(other, now);

/**
 * Returns whether an event began to be sent, or was settled, while the processor's sum was read. Nothing else compares the
 * minute again before the end of an attempt is recorded.
 */
const wasDisturbed = (event: StoredMeterEvent, before: MinuteUsage, after: MinuteUsage): boolean =>
  after.explained !== before.explained ||
  after.lastDeliveredAt?.getTime() !== before.lastDeliveredAt?.getTime() ||
  after.sending.some((other) => mustWaitFor(event, other));

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
  const { accountId, kind, customerId } = event;
  const readOthers = () => readMinuteUsage(db, streamOfEvent(event), minute, [event.id]);
  const others = await readOthers();
  const { isAcknowledged, version: othersVersion } = others;
  if (others.sending.some((other) => holdsUpCheck(event, other, now))) {
    const reason = "an earlier event of that minute has to be checked first";
    return { outcome: { kind: "conflict", reason }, othersVersion, isAcknowledged };
  }
  if (others.sending.some((other) => mustWaitFor(event, other))) {
    return { outcome: OTHER_EVENT_IN_FLIGHT, othersVersion, isAcknowledged };
  }
  try {
    const theirs = await processor.sumUsage({ accountId, customerId }, kind, minute, signal);
    if (event.state === "sending" && wasDisturbed(event, others, await readOthers())) {
      return { outcome: OTHER_EVENT_IN_FLIGHT, othersVersion, isAcknowledged };
    }
    const lastSentAt = event.settledAt ?? event.inDoubtSince;
    const outcome = compareUsage(
      { quantity: event.quantity, lastSentAt },
      theirs,
      others,
      processor.usageLagMs,
      now,
    );
    return { outcome, othersVersion, isAcknowledged };
  } catch (error) {
    if (error instanceof UsageUnreadableError) {
      const reason = `the processor does not report its usage: ${error.message}`;
      return { outcome: { kind: "unclear", reason }, othersVersion, isAcknowledged };
    }
    throw error;
  }
};
