import { DAY_MS, HOUR_MS, MINUTE_MS } from "../../../runtime/durations.rules.ts";
import type { StoredMeterEvent } from "../meterEvents.rules.ts";

/** An event at the processor that a webhook has announced. What happened is read from the processor later. */
export type ProcessorEvent = {
  /** The processor's id of the event; a repeated webhook has the same. */
  readonly id: string;
  readonly type: string;
  /** What it is about, such as a subscription or a Checkout session. */
  readonly objectId: string | null;
};

/** The type of our own request to read a subscription. */
export const SUBSCRIPTION_READ = "subscription.read";

const TYPES: ReadonlyMap<string, "report" | "payment" | "subscription"> = new Map([
  ["v1.billing.meter.error_report_triggered", "report"],
  ["v1.billing.meter.no_meter_found", "report"],
  ["checkout.session.completed", "payment"],
  ["checkout.session.async_payment_succeeded", "payment"],
  ["customer.deleted", "subscription"],
  [SUBSCRIPTION_READ, "subscription"],
]);

/**
 * Returns what an event of a type is about: a `report` of usage that the processor refused after it had accepted it, a Checkout
 * session that may have been paid, or a subscription or customer that may have changed. Null: nothing here, so it is not stored.
 */
export const subjectOf = (type: string): "report" | "payment" | "subscription" | null =>
  type.startsWith("customer.subscription.") ? "subscription" : (TYPES.get(type) ?? null);

/** What the processor refused of the usage that it received until a time: samples, and why, by the identifiers of meter events. */
export type RefusalReport = {
  readonly windowEnd: Date;
  readonly reasons: ReadonlyMap<string, string>;
};

/** Returns the identifier of a meter event from the idempotency key of an attempt, or unchanged from an identifier. */
export const identifierOf = (identifierOrKey: string): string =>
  identifierOrKey.split("#", 1)[0] ?? "";

/** Stripe accepts timestamps that far ahead of its clock, so the clocks may differ by it. */
const CLOCK_DIFFERENCE_MS = 5 * MINUTE_MS;

/**
 * Decides what a late refusal leads to: the state of the event, `wait` while it is still being sent, or null if it changes
 * nothing, as a repeated report. After a restore, an event may have the identifier of one that was refused in the lost history.
 */
export const decideLateRefusal = (
  { state, firstAttemptAt, documentReference }: StoredMeterEvent,
  windowEnd: Date,
): "failed" | "closed" | "wait" | null => {
  if (state === "pending") {
    return "wait";
  }
  const isOfLostHistory =
    firstAttemptAt !== null && firstAttemptAt.getTime() > windowEnd.getTime() + CLOCK_DIFFERENCE_MS;
  if (state !== "delivered" || isOfLostHistory) {
    return null;
  }
  return documentReference === null ? "failed" : "closed";
};

/** The delay after the first attempt to process an event. It doubles, and also covers a process that dies meanwhile. */
export const FIRST_PROCESSING_DELAY_MS = 5000;
export const MAXIMUM_PROCESSING_DELAY_MS = HOUR_MS;

/** Long enough for an outage of the processor over a weekend. */
const GIVE_UP_AFTER_MS = 7 * DAY_MS;

/** Returns whether an event that could not be processed is given up. The comparisons of each night find what it meant. */
export const isGivenUp = (receivedAt: Date, now: Date): boolean =>
  now.getTime() - receivedAt.getTime() > GIVE_UP_AFTER_MS;
