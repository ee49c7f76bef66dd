import { HOUR_MS } from "../../../runtime/durations.rules.ts";
import { DELIVERED_LATE, isFailed } from "../meterEvents.rules.ts";
import type { FailedState } from "../meterEvents.rules.ts";
import { ACCEPTED_AGE_MS } from "../usage.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";

/*
 * The rules of sending a meter event. docs/billing.md shows its states in a diagram.
 */

/**
 * What is known of the delivery of a meter event, from the response to an attempt or from a check of the processor's
 * sums.
 * - `delivered`: the processor has the usage.
 * - `duplicate`: the processor has accepted the identifier before. It does not say for which quantity.
 * - `conflict`: the identifier was used before for other values. That shows neither delivery nor absence.
 * - `absent`: the sums show that no earlier attempt was accepted.
 * - `partial`: the sums show that the processor has only `acceptedQuantity` of the event's units.
 * - `retry`: the attempt failed, and a later one may succeed; `outcomeUnknown` if this one may have been accepted.
 *   `newKey` if the response was saved under the idempotency key, so that the next attempt needs another key.
 * - `rate_limited`: the processor gets too many calls. It has not accepted this one.
 * - `rejected`: the processor will never accept this event.
 * - `misconfigured`: the credentials are refused, or a meter is missing or differs. An operator must fix that. `newKey`
 *   as for `retry`.
 * - `early`: the sums may still change; check again after `afterMs`.
 * - `unclear`: the sums fit neither delivery nor absence, or cannot be read at all.
 */
export type AttemptOutcome =
  | { readonly kind: "delivered" }
  | { readonly kind: "duplicate"; readonly reason: string }
  | { readonly kind: "conflict"; readonly reason: string }
  | { readonly kind: "absent" }
  | { readonly kind: "partial"; readonly acceptedQuantity: number }
  | {
      readonly kind: "retry";
      readonly reason: string;
      readonly outcomeUnknown: boolean;
      readonly newKey?: boolean;
    }
  | { readonly kind: "rate_limited"; readonly reason: string }
  | { readonly kind: "rejected"; readonly reason: string }
  | { readonly kind: "misconfigured"; readonly reason: string; readonly newKey?: boolean }
  | { readonly kind: "early"; readonly reason: string; readonly afterMs: number }
  | { readonly kind: "unclear"; readonly reason: string };

/** The event stays in `sending` and is attempted again later. */
export type Delay = {
  readonly kind: "delayed";
  readonly cause:
    | "retry"
    | "rate_limited"
    | "misconfigured"
    | "leased"
    | "early"
    | "in_doubt"
    | "held";
  readonly reason: string;
  readonly afterMs: number;
  readonly outcomeUnknown: boolean;
  /** Whether the next attempt needs another idempotency key. */
  readonly newKey: boolean;
};

/** The event's final state. `superseded`: its facts are sealed in a new event, under an identifier that was never used. */
export type Settlement = {
  readonly kind: "settled";
  readonly state: "delivered" | "superseded" | FailedState;
  readonly reason: string | null;
  /** The units that the processor has if it has only a part; the rest is sealed in a new event. Null otherwise. */
  readonly acceptedQuantity: number | null;
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

const HELD_DELAY_MS = 30 * 1000;

/** Stripe accepts timestamps at most five minutes ahead of its clock. */
const ACCEPTED_LEAD_MS = 4 * 60 * 1000;

const AHEAD_DELAY_MS = 60 * 1000;

/**
 * The attempts that an event waits for if it is ahead: the clock that it was sealed by was fast. Later it gives way to
 * the stream's other usage. Not immediately, because a worker whose clock is still fast would soon seal its usage again.
 */
const PATIENT_ATTEMPTS = 10;

const AHEAD = "ahead of the processor's clock";

/** The next attempt checks the sums and returns how long they may still lag. */
const IN_DOUBT_DELAY_MS = 1000;

/**
 * Stripe rejects a duplicate identifier for 24 hours; after that a resend could count twice. Four of these hours are a
 * reserve for clock differences and for calls in flight.
 */
const IDENTIFIER_TRUSTED_MS = 20 * HOUR_MS;

const FIRST_RETRY_DELAY_MS = 1000;

/** Later usage of the stream waits behind the event. */
export const MAXIMUM_RETRY_DELAY_MS = 60 * 1000;

/** The longest delay. An event that has to wait for longer is looked at again meanwhile. */
export const MAXIMUM_DELAY_MS = MISCONFIGURED_DELAY_MS;

/** Returns the delay before an event is sent again. It doubles with each of the event's own attempts. */
const retryDelayMs = ({ attempts }: SendingEvent): number =>
  Math.min(FIRST_RETRY_DELAY_MS * 2 ** (attempts - 1), MAXIMUM_RETRY_DELAY_MS);

/**
 * Shortens the delay of a retry by up to a half, so that streams that failed together do not all retry at the same time.
 * @param random from 0 (inclusive) to 1 (exclusive)
 */
export const withJitter = (delay: Delay, random: number): Delay =>
  delay.cause === "retry" || delay.cause === "rate_limited"
    ? { ...delay, afterMs: Math.ceil(delay.afterMs * (1 - random / 2)) }
    : delay;

const delayed = (
  cause: Delay["cause"],
  reason: string,
  changes: Pick<Delay, "afterMs"> & Partial<Pick<Delay, "outcomeUnknown" | "newKey">>,
): Delay => ({
  kind: "delayed",
  cause,
  reason,
  outcomeUnknown: false,
  newKey: false,
  ...changes,
});

const settled = (
  state: Settlement["state"],
  reason: string | null = null,
  acceptedQuantity: number | null = null,
): Settlement => ({ kind: "settled", state, reason, acceptedQuantity, isLate: false });

/** From now on the processor's sums decide: they must first show everything that was sent until now. */
const inDoubt = (reason: string): Delay =>
  delayed("in_doubt", reason, { afterMs: IN_DOUBT_DELAY_MS, outcomeUnknown: true });

/** The step if another attempt holds the event's lease. */
export const LEASED = delayed("leased", "another attempt may be in progress", {
  afterMs: LEASE_MS,
});

/** The step if an account has a Stripe customer and Stripe is not configured: its usage waits for Stripe. */
export const STRIPE_MISSING = delayed(
  "misconfigured",
  "the account has a Stripe customer, but Stripe is not configured",
  { afterMs: MISCONFIGURED_DELAY_MS },
);

/** The step if this process is set up for another processor than the deployment's. */
export const wrongProcessor = (problem: string): Delay =>
  delayed("misconfigured", problem, { afterMs: MISCONFIGURED_DELAY_MS });

/** The step while usage is held: an operator ends the hold. */
export const usageHeld = (reason: string): Delay =>
  delayed("held", reason, { afterMs: HELD_DELAY_MS });

export const asLate = (settlement: Settlement): Settlement => ({
  ...settlement,
  reason: DELIVERED_LATE,
  isLate: true,
});

/** A meter event whose attempt has begun, as it was before that attempt's outcome. */
export type SendingEvent = {
  readonly processor: ProcessorName;
  readonly second: number;
  /** The attempts so far, this one included. */
  readonly attempts: number;
  readonly firstAttemptAt: Date | null;
  /** Whether an earlier attempt may have been accepted. */
  readonly outcomeUnknown: boolean;
  /** Since when the processor may have another quantity under the identifier, which is then never sent again. */
  readonly inDoubtSince: Date | null;
};

const ageOf = ({ second }: Pick<SendingEvent, "second">, now: Date): number =>
  now.getTime() - second * 1000;

const isTooOldToSend = (event: Pick<SendingEvent, "processor" | "second">, now: Date): boolean => {
  const acceptedAgeMs = ACCEPTED_AGE_MS[event.processor];
  return acceptedAgeMs !== null && ageOf(event, now) > acceptedAgeMs;
};

const EXPIRED = settled("expired", "older than the processor accepts");

/**
 * The other usage of the stream waits behind an event that is ahead, so the event does not wait for long: its facts are
 * sealed anew once their second is over. If an attempt may have been accepted, it waits for its second, unless Stripe may
 * have forgotten its identifier by then.
 */
const decideAhead = (event: SendingEvent, now: Date): NextStep => {
  const isPatient = event.attempts <= PATIENT_ATTEMPTS;
  if (!isPatient && !event.outcomeUnknown) {
    return settled("superseded", `${AHEAD}; sealed anew once its second is over`);
  }
  return isPatient || -ageOf(event, now) <= IDENTIFIER_TRUSTED_MS
    ? delayed("early", AHEAD, { afterMs: AHEAD_DELAY_MS })
    : inDoubt(AHEAD);
};

const decideByAge = (event: SendingEvent, now: Date): NextStep => {
  if (isTooOldToSend(event, now)) {
    return EXPIRED;
  }
  return ageOf(event, now) < -ACCEPTED_LEAD_MS ? decideAhead(event, now) : { kind: "send" };
};

/** Returns whether the next attempt of an event compares the processor's sums before it sends anything. */
export const isToBeChecked = (event: Omit<SendingEvent, "attempts">, now: Date): boolean => {
  const { firstAttemptAt, outcomeUnknown, inDoubtSince } = event;
  const attemptedLongAgo =
    firstAttemptAt !== null && now.getTime() - firstAttemptAt.getTime() > IDENTIFIER_TRUSTED_MS;
  return (
    inDoubtSince !== null || (outcomeUnknown && (attemptedLongAgo || isTooOldToSend(event, now)))
  );
};

const decideBeforeSending = (event: SendingEvent, now: Date): NextStep =>
  isToBeChecked(event, now) ? { kind: "check" } : decideByAge(event, now);

/** The identifier of an event in doubt may have been used, so its usage needs a new one. */
const decideAbsent = (event: SendingEvent, now: Date): NextStep => {
  if (event.inDoubtSince === null) {
    return decideByAge(event, now);
  }
  return isTooOldToSend(event, now) ? EXPIRED : settled("superseded");
};

/** The rest is sent under a new identifier. Until then no attempt under this one may become visible in the sums. */
const decidePartial = ({ inDoubtSince }: SendingEvent, acceptedQuantity: number): NextStep => {
  const reason = `the processor has ${acceptedQuantity} of the units`;
  return inDoubtSince === null
    ? inDoubt(reason)
    : settled("delivered", `${reason}; the others are sealed anew`, acceptedQuantity);
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
    case "delivered":
      return settled("delivered");
    case "duplicate":
      // Without an earlier attempt, the identifier was used before this database lost transactions.
      return event.outcomeUnknown ? settled("delivered") : inDoubt(outcome.reason);
    case "conflict":
      return inDoubt(outcome.reason);
    case "absent":
      return decideAbsent(event, now);
    case "partial":
      return decidePartial(event, outcome.acceptedQuantity);
    case "retry":
      // The identifier prevents a second acceptance, also with a new key.
      return delayed("retry", outcome.reason, {
        afterMs: retryDelayMs(event),
        outcomeUnknown: outcome.outcomeUnknown,
        newKey: outcome.newKey ?? false,
      });
    case "rate_limited":
      return delayed("rate_limited", outcome.reason, { afterMs: retryDelayMs(event) });
    case "misconfigured":
      return delayed("misconfigured", outcome.reason, {
        afterMs: MISCONFIGURED_DELAY_MS,
        newKey: outcome.newKey ?? false,
      });
    case "early":
      return delayed("early", outcome.reason, {
        afterMs: Math.min(outcome.afterMs, MAXIMUM_DELAY_MS),
      });
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
    : isFailed(result.state) || result.isLate;
