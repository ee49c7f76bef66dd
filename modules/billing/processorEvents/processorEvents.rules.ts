import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../runtime/durations.rules.ts";
import type { LiveProcessor } from "../deployment.rules.ts";
import { isUnfinished } from "../meterEvents.rules.ts";
import type { StoredState } from "../meterEvents.rules.ts";

/** An event at the processor that a webhook has announced. What happened is read from the processor later. */
export type ProcessorEvent = {
  /** The processor's id of the event; a repeated webhook has the same. */
  readonly id: string;
  readonly type: string;
  /** What it is about, such as a subscription or a customer. */
  readonly objectId: string | null;
  /** When it happened at the processor. */
  readonly createdAt: Date;
  /** Whether it happened in live mode. A destination of the other mode may be signed with a known secret by mistake. */
  readonly isLive: boolean;
};

const modeName = (isLive: boolean): string => (isLive ? "live mode" : "test mode");

/** Returns why an event does not belong to the deployment, or null. Until a worker has recorded who bills, all belong. */
export const findForeignMode = (
  { isLive }: Pick<ProcessorEvent, "isLive">,
  recorded: LiveProcessor | null,
): string | null =>
  recorded?.name === "stripe" && recorded.account.isLive !== isLive
    ? `the event is of Stripe's ${modeName(isLive)}, and this deployment bills in ${modeName(recorded.account.isLive)}; point the webhook destination of ${modeName(recorded.account.isLive)} to this URL`
    : null;

/**
 * `failed`: it cannot be processed, and needs an operator. `discarded`: it failed, and an operator has settled what it
 * means.
 */
export const PROCESSOR_EVENT_STATES = ["pending", "processed", "failed", "discarded"] as const;
export type ProcessorEventState = (typeof PROCESSOR_EVENT_STATES)[number];

/** Reports of usage that the processor refused after it had accepted it. */
const REJECTION_REPORT_TYPES = [
  "v1.billing.meter.error_report_triggered",
  "v1.billing.meter.no_meter_found",
] as const;

const isRejectionReport = (type: string): boolean =>
  REJECTION_REPORT_TYPES.some((report) => report === type);

/** Returns whether an event may have changed a subscription; its object is the subscription or the customer. */
export const isSubscriptionChange = (type: string): boolean =>
  type.startsWith("customer.subscription.") || type === "customer.deleted";

/** Returns whether events of a type change anything here; others are not stored. */
export const isProcessed = (type: string): boolean =>
  isRejectionReport(type) || isSubscriptionChange(type);

/** Events of one error code that the processor refused after it had accepted them. */
type Rejection = {
  readonly code: string;
  /** How many events were refused, including those that no sample names. */
  readonly errors: number;
  readonly samples: readonly { readonly identifier: string; readonly message: string }[];
};

/** What the processor refused of the usage that it received in a window. */
export type RejectionReport = {
  readonly windowStart: Date;
  readonly windowEnd: Date;
  readonly rejections: readonly Rejection[];
};

/** Returns the identifier of a meter event from the idempotency key of an attempt, or unchanged from an identifier. */
export const identifierOf = (identifierOrKey: string): string =>
  identifierOrKey.split("#", 1)[0] ?? "";

/** Stripe accepts timestamps that far ahead of its clock, so the clocks may differ by it. */
const CLOCK_DIFFERENCE_MS = 5 * MINUTE_MS;

/**
 * Returns whether a report can be about an event. After a restore, an event may have the identifier of one that the
 * processor refused in the lost history, and that was sent before the first attempt of this one. If the outcome of an attempt
 * is unknown, the event can be the refused one, because the processor recognized its identifier. As long as it is being sent,
 * that may still turn out.
 */
export const isInReport = (
  { state, outcomeUnknown, firstAttemptAt }: StoredState & { readonly firstAttemptAt: Date | null },
  { windowEnd }: Pick<RejectionReport, "windowEnd">,
): boolean =>
  isUnfinished(state) ||
  outcomeUnknown ||
  firstAttemptAt === null ||
  firstAttemptAt.getTime() <= windowEnd.getTime() + CLOCK_DIFFERENCE_MS;

/**
 * Decides what a rejection after acceptance leads to: the state of the event, `wait` while it is still being sent, or null
 * if it changes nothing, as a repeated report does. If another attempt may have been accepted, sealing the usage anew
 * could bill it twice, so that must be found out first. So it is with an event that was sealed before the end of a hold: the
 * hold may have followed a restore, and in the lost history the same report may have led to a retry. When it was delivered
 * says nothing, because a later check may have found that. Usage that was settled by hand is `waived`: its document bills it.
 * @param holds.releasedAt when the last hold ended; null if none has ended
 */
export const decideLateRejection = (
  {
    state,
    outcomeUnknown,
    sealedAt,
    settlementReference,
  }: StoredState & { readonly sealedAt: Date; readonly settlementReference: string | null },
  { isHeld, releasedAt }: { readonly isHeld: boolean; readonly releasedAt: Date | null },
): "rejected" | "blocked" | "waived" | "wait" | null => {
  if (state === "sealed" || state === "sending") {
    return "wait";
  }
  if (state !== "delivered") {
    return null;
  }
  if (settlementReference !== null) {
    return "waived";
  }
  const mayBeRetried = isHeld || (releasedAt !== null && sealedAt <= releasedAt);
  return outcomeUnknown || mayBeRetried ? "blocked" : "rejected";
};

const FIRST_DELAY_MS = 5000;
export const MAXIMUM_PROCESSING_DELAY_MS = HOUR_MS;

/** Returns the delay after an attempt to process an event, counted from 1. It also covers a process that dies meanwhile. */
export const processingDelayMs = (attempt: number): number =>
  Math.min(FIRST_DELAY_MS * 2 ** (attempt - 1), MAXIMUM_PROCESSING_DELAY_MS);

/** Long enough for an outage of the processor over a weekend. */
const GIVE_UP_AFTER_MS = 7 * DAY_MS;

/** Returns whether an event that could not be processed is given up, and left to an operator. */
export const isGivenUp = (receivedAt: Date, now: Date): boolean =>
  now.getTime() - receivedAt.getTime() > GIVE_UP_AFTER_MS;
