import { HOUR_MS } from "../../../runtime/durations.rules.ts";
import type { Failure, MeterEventState, StoredMeterEvent } from "../meterEvents.rules.ts";
import { ACCEPTED_AGE_MS, CALL_TIMEOUT_MS } from "../usage.rules.ts";
import type { ProcessorName } from "../usage.rules.ts";

/* The rules of sealing and sending a meter event. docs/billing.md shows its states in a diagram. */

/**
 * Decides the first state of a meter event. The built-in ledger is this table, so it has what is sealed for it. Units that
 * add up to zero need not be sent.
 * @param part.waitsFor the event of the usage that it takes back, if the processor does not have that
 * @param part.isUsageClosed whether that usage is never billed, so that there is nothing to take back
 */
export const stateAtSealing = (part: {
  readonly quantity: number;
  readonly processor: ProcessorName;
  readonly waitsFor: string | null;
  readonly isUsageClosed: boolean;
}): { readonly state: MeterEventState; readonly failure: Failure | null } => {
  if (part.isUsageClosed) {
    return { state: "closed", failure: null };
  }
  if (part.waitsFor !== null) {
    return { state: "failed", failure: "waits_for_usage" };
  }
  const isSent = part.quantity !== 0 && part.processor !== "ledger";
  return { state: isSent ? "pending" : "delivered", failure: null };
};

/**
 * The outcome of an attempt to send a meter event.
 * - `delivered`: the processor has accepted it.
 * - `duplicate`: the processor has accepted the identifier before. It does not say for which quantity.
 * - `conflict`: the identifier was used before for other values. That shows neither delivery nor absence.
 * - `retry`: the attempt failed, and a later one may succeed; `outcomeUnknown` if this one may have been accepted.
 *   `newKey` if the response was saved under the idempotency key, so that the next attempt needs another key.
 * - `rate_limited`: the processor gets too many calls. It has not accepted this one.
 * - `rejected`: the processor will never accept this event.
 * - `misconfigured`: the credentials are refused, or a meter is missing or differs. An operator must fix that. `newKey`
 *   as for `retry`.
 */
export type AttemptOutcome =
  | { readonly kind: "delivered" }
  | { readonly kind: "duplicate" | "conflict" | "rejected"; readonly reason: string }
  | {
      readonly kind: "retry" | "rate_limited" | "misconfigured";
      readonly reason: string;
      readonly outcomeUnknown?: boolean;
      readonly newKey?: boolean;
    };

export type Delay = {
  readonly kind: "delayed";
  readonly cause: "retry" | "rate_limited" | "misconfigured" | "early" | "asking";
  readonly reason: string;
  readonly afterMs: number;
  readonly outcomeUnknown?: boolean;
  readonly newKey?: boolean;
};

export type Settlement = {
  readonly kind: "settled";
  readonly state: "delivered" | "failed";
  readonly failure: Failure | null;
  readonly reason: string | null;
};

/** What to do next with a meter event. `ask`: the processor's sums decide before anything is sent. */
export type NextStep = { readonly kind: "send" | "ask" } | Delay | Settlement;

export type SendResult = Delay | Settlement;

/** Longer than any attempt can take: no call leaves so late that it could outlast the lease. */
export const LEASE_MS = 5000 + CALL_TIMEOUT_MS;

/** Only an operator can fix a configuration, so frequent attempts are useless. */
const MISCONFIGURED_DELAY_MS = 5 * 60 * 1000;

/** Stripe accepts timestamps at most five minutes ahead of its clock. */
const ACCEPTED_LEAD_MS = 4 * 60 * 1000;

const AHEAD_DELAY_MS = 60 * 1000;

/** The attempts that an event waits for if it is ahead: the clock that it was sealed by was fast. */
const PATIENT_ATTEMPTS = 10;

const AHEAD = "ahead of the processor's clock";

/** The next attempt asks the processor, and learns how long its sums may still lag. */
const ASKING_DELAY_MS = 1000;

/**
 * Stripe rejects a duplicate identifier for 24 hours; after that a resend could count twice. Four of these hours are a
 * reserve for clock differences and for calls in flight.
 */
const IDENTIFIER_TRUSTED_MS = 20 * HOUR_MS;

const FIRST_RETRY_DELAY_MS = 1000;

/** Later usage of the stream waits behind the event. */
const MAXIMUM_RETRY_DELAY_MS = 60 * 1000;

/** The longest delay. An event that has to wait for longer is looked at again meanwhile. */
export const MAXIMUM_DELAY_MS = MISCONFIGURED_DELAY_MS;

/** Returns the delay before an event is sent again. It doubles with each of the event's own attempts. */
const retryDelayMs = ({ attempts }: StoredMeterEvent): number =>
  Math.min(FIRST_RETRY_DELAY_MS * 2 ** (attempts - 1), MAXIMUM_RETRY_DELAY_MS);

const delayed = (
  cause: Delay["cause"],
  reason: string,
  afterMs: number,
  changes: Pick<Delay, "outcomeUnknown"> = {},
): Delay => ({ kind: "delayed", cause, reason, afterMs, ...changes });

const UNKNOWN = { outcomeUnknown: true } as const;

const DELIVERED: Settlement = { kind: "settled", state: "delivered", failure: null, reason: null };

const failed = (failure: Failure, reason: string): Settlement => ({
  ...DELIVERED,
  state: "failed",
  failure,
  reason,
});

/** From now on the processor's sums decide: they must first show everything that was sent until now. */
const asking = (reason: string): Delay => delayed("asking", reason, ASKING_DELAY_MS, UNKNOWN);

/** The step if the processor's sums may still change, or another event of the minute is being sent. */
export const early = (reason: string, afterMs: number): Delay =>
  delayed("early", reason, Math.min(afterMs, MAXIMUM_DELAY_MS));

/** The step after an error of ours. The next attempt would probably end in it, too. */
export const afterError = (error: unknown): Delay =>
  delayed(
    "retry",
    error instanceof Error ? error.message : String(error),
    MAXIMUM_RETRY_DELAY_MS,
    UNKNOWN,
  );

export const STRIPE_MISSING = "the usage is for Stripe, but Stripe is not configured";

/** The step if this process is not set up for the usage: an operator has to fix that. */
export const misconfigured = (problem: string): Delay =>
  delayed("misconfigured", problem, MISCONFIGURED_DELAY_MS);

export const isTooOldToSend = (second: number, now: Date): boolean =>
  now.getTime() - second * 1000 > ACCEPTED_AGE_MS.stripe;

export const TOO_OLD = "older than the processor accepts";

/** Decides about an event whose attempt has begun, and is counted. */
export const decideNextStep = (
  { second, attempts, firstAttemptAt, mayBeDelivered, askingSince }: StoredMeterEvent,
  now: Date,
): NextStep => {
  if (askingSince !== null) {
    return { kind: "ask" };
  }
  const isTooOld = isTooOldToSend(second, now);
  const isForgotten =
    firstAttemptAt !== null && now.getTime() - firstAttemptAt.getTime() > IDENTIFIER_TRUSTED_MS;
  if (mayBeDelivered && (isTooOld || isForgotten)) {
    return asking("the outcome of an attempt was never known");
  }
  if (isTooOld) {
    return failed("too_old", TOO_OLD);
  }
  if (second * 1000 - now.getTime() <= ACCEPTED_LEAD_MS) {
    return { kind: "send" };
  }
  // The other usage of the stream waits behind it, so it does not wait for long.
  return attempts <= PATIENT_ATTEMPTS
    ? delayed("early", AHEAD, AHEAD_DELAY_MS)
    : failed("refused", AHEAD);
};

/** Returns what the outcome of an attempt means for its event, which is as it was before that outcome. */
export const decideResult = (event: StoredMeterEvent, outcome: AttemptOutcome): SendResult => {
  switch (outcome.kind) {
    case "delivered":
      return DELIVERED;
    case "duplicate":
      // Without an earlier attempt, the identifier was used before this database lost transactions.
      return event.mayBeDelivered ? DELIVERED : asking(outcome.reason);
    case "conflict":
      return asking(outcome.reason);
    case "retry":
    case "rate_limited":
    case "misconfigured": {
      // The identifier prevents a second acceptance, also with a new key.
      const { kind: cause, ...attempted } = outcome;
      const afterMs = cause === "misconfigured" ? MISCONFIGURED_DELAY_MS : retryDelayMs(event);
      return { kind: "delayed", cause, ...attempted, afterMs };
    }
    case "rejected":
      return failed("refused", outcome.reason);
  }
};

/** Returns whether only an operator can fix what an attempt ended in. */
export const needsAttention = (result: SendResult): boolean =>
  result.kind === "delayed" ? result.cause === "misconfigured" : result.state === "failed";
