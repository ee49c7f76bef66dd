import { DELIVERED_LATE } from "./meterEvents.ts";
import type { FailedState } from "./meterEvents.ts";
import { ACCEPTED_AGE_MS } from "./usage.ts";
import type { ProcessorName } from "./usage.ts";

/*
 * The rules of sending a meter event. docs/billing.md shows its states in a diagram.
 */

/**
 * What is known of the delivery of a meter event, from the response to an attempt or from a check of the processor's
 * sums.
 * - `delivered`: the processor has the usage; `duplicate` if it had accepted it before.
 * - `absent`: the sums show that no earlier attempt was accepted.
 * - `retry`: the attempt failed, and a later one may succeed; `outcomeUnknown` if this one may have been accepted.
 * - `retry_new_key`: a 500 was saved under the idempotency key, so the next attempt needs another key.
 * - `rejected`: the processor will never accept this event.
 * - `misconfigured`: the credentials are refused, or a meter is missing or differs. An operator must fix that.
 * - `early`: the sums may still change; check again after `afterMs`.
 * - `unclear`: the sums fit neither delivery nor absence, or cannot be read at all.
 */
export type AttemptOutcome =
  | { readonly kind: "delivered"; readonly duplicate: boolean }
  | { readonly kind: "absent" }
  | { readonly kind: "retry"; readonly reason: string; readonly outcomeUnknown: boolean }
  | { readonly kind: "retry_new_key"; readonly reason: string }
  | { readonly kind: "rejected"; readonly reason: string }
  | { readonly kind: "misconfigured"; readonly reason: string }
  | { readonly kind: "early"; readonly reason: string; readonly afterMs: number }
  | { readonly kind: "unclear"; readonly reason: string };

/** The event stays in `sending` and is attempted again later. */
export type Delay = {
  readonly kind: "delayed";
  readonly cause: "retry" | "misconfigured" | "leased" | "early";
  readonly reason: string;
  /** Null leaves the delay to the caller's backoff. */
  readonly afterMs: number | null;
  readonly outcomeUnknown: boolean;
  /** Whether the next attempt needs another idempotency key. */
  readonly newKey: boolean;
};

/** The event's final state. */
export type Settlement = {
  readonly kind: "settled";
  readonly state: "delivered" | FailedState;
  readonly reason: string | null;
  /** Whether it was delivered after the invoice of its period may have been finalized. */
  readonly isLate: boolean;
};

/** What to do next with a meter event. `check`: compare the processor's sums with ours before anything is sent. */
export type NextStep = { readonly kind: "send" | "check" } | Delay | Settlement;

/** The step that ends an attempt. */
export type SendResult = Delay | Settlement;

/** Longer than any attempt can take: the processor's client gives up after 10 seconds. */
export const LEASE_MS = 15_000;

/** Only an operator can fix a configuration, so frequent attempts are useless. */
const MISCONFIGURED_DELAY_MS = 5 * 60 * 1000;

/** Stripe accepts timestamps at most five minutes ahead of its clock. */
const ACCEPTED_LEAD_MS = 4 * 60 * 1000;

const AHEAD_DELAY_MS = 60 * 1000;

/**
 * Stripe rejects a duplicate identifier for 24 hours; after that a resend could count twice. Four of these hours are a
 * reserve for clock differences and for calls in flight.
 */
const IDENTIFIER_TRUSTED_MS = 20 * 60 * 60 * 1000;

const delayed = (
  cause: Delay["cause"],
  reason: string,
  changes: Partial<Pick<Delay, "afterMs" | "outcomeUnknown" | "newKey">> = {},
): Delay => ({
  kind: "delayed",
  cause,
  reason,
  afterMs: null,
  outcomeUnknown: false,
  newKey: false,
  ...changes,
});

const settled = (state: Settlement["state"], reason: string | null = null): Settlement => ({
  kind: "settled",
  state,
  reason,
  isLate: false,
});

/** The step if another attempt holds the event's lease. */
export const LEASED = delayed("leased", "another attempt may be in progress", {
  afterMs: LEASE_MS,
});

/** The step if an account has a Stripe customer and Stripe is not configured: its usage waits for Stripe. */
export const STRIPE_MISSING = delayed(
  "misconfigured",
  "the account has a Stripe customer, and Stripe is not configured",
  { afterMs: MISCONFIGURED_DELAY_MS },
);

/** Records that a delivery was late. */
export const asLate = (settlement: Settlement): Settlement => ({
  ...settlement,
  reason: DELIVERED_LATE,
  isLate: true,
});

/** A meter event whose attempt has begun, as it was before that attempt's outcome. */
export type SendingEvent = {
  readonly processor: ProcessorName;
  readonly second: number;
  readonly firstAttemptAt: Date | null;
  /** Whether an earlier attempt may have been accepted. */
  readonly outcomeUnknown: boolean;
};

const decideBeforeSending = (
  { processor, second, firstAttemptAt, outcomeUnknown }: SendingEvent,
  now: Date,
): NextStep => {
  const acceptedAgeMs = ACCEPTED_AGE_MS[processor];
  const ageMs = now.getTime() - second * 1000;
  const isTooOld = acceptedAgeMs !== null && ageMs > acceptedAgeMs;
  const attemptedLongAgo =
    firstAttemptAt !== null && now.getTime() - firstAttemptAt.getTime() > IDENTIFIER_TRUSTED_MS;
  if (outcomeUnknown && (attemptedLongAgo || isTooOld)) {
    return { kind: "check" };
  }
  if (isTooOld) {
    return settled("expired", "older than the processor accepts");
  }
  return ageMs < -ACCEPTED_LEAD_MS
    ? delayed("early", "ahead of the processor's clock", { afterMs: AHEAD_DELAY_MS })
    : { kind: "send" };
};

/** If an earlier attempt was accepted, sealing the usage anew would bill it twice. That must be known first. */
const failed = ({ outcomeUnknown }: SendingEvent, reason: string): Settlement =>
  settled(outcomeUnknown ? "blocked" : "rejected", reason);

/** The step if the event's processor is not configured and the account has left it. */
export const withoutProcessor = (event: SendingEvent): Settlement =>
  failed(event, `the event was sealed for ${event.processor}, which is not configured`);

/**
 * Returns what to do next with a meter event.
 * @param outcome what this attempt has shown so far; null if it has just begun
 */
export const decideNextStep = (
  event: SendingEvent,
  outcome: AttemptOutcome | null,
  now: Date,
): NextStep => {
  switch (outcome?.kind) {
    case undefined:
      return decideBeforeSending(event, now);
    case "absent":
      return decideBeforeSending({ ...event, outcomeUnknown: false }, now);
    case "delivered":
      return settled("delivered");
    case "retry":
      return delayed("retry", outcome.reason, { outcomeUnknown: outcome.outcomeUnknown });
    case "retry_new_key":
      // The usage may have been accepted before the 500 was saved. The identifier prevents a second acceptance.
      return delayed("retry", outcome.reason, { outcomeUnknown: true, newKey: true });
    case "misconfigured":
      return delayed("misconfigured", outcome.reason, { afterMs: MISCONFIGURED_DELAY_MS });
    case "early":
      return delayed("early", outcome.reason, { afterMs: outcome.afterMs });
    case "rejected":
      return failed(event, outcome.reason);
    case "unclear":
      return settled("blocked", outcome.reason);
  }
};

/** Returns whether only an operator can fix what an attempt ended in. */
export const needsAttention = (result: SendResult): boolean =>
  result.kind === "delayed"
    ? result.cause === "misconfigured"
    : result.state !== "delivered" || result.isLate;
