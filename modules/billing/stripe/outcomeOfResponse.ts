import { Stripe } from "stripe";
import { ProcessorMismatchError } from "../processor.ts";
import type { AttemptOutcome } from "../sending/decideNextStep.rules.ts";

// Stripe has no code for these errors.
const ALREADY_EXISTS = /^An event already exists with identifier /u;
const NO_METER = /^No active meter found /u;

/** Returns Stripe's message, why the connection failed, and the request id that finds the call in Stripe's logs. */
const reasonOf = (error: Stripe.errors.StripeError): string => {
  const { message, statusCode, requestId, detail } = error;
  const cause: unknown = detail instanceof Error ? (detail.cause ?? detail) : null;
  const details = [
    cause instanceof Error && cause.message,
    statusCode !== undefined && `status ${statusCode}`,
    requestId !== undefined && `request ${requestId}`,
  ].filter((each) => each !== false);
  return `${message || "no message"}${details.length > 0 ? ` (${details.join(", ")})` : ""}`;
};

/** Returns whether the response was saved under the idempotency key by an earlier attempt. */
const isReplayed = (headers: Readonly<Record<string, unknown>> | undefined): boolean =>
  headers?.["idempotent-replayed"] === "true";

/**
 * Returns what a response without an error means for an attempt to report usage. A replay shows that the event was
 * accepted before, perhaps in a history that the database has lost.
 */
export const outcomeOfResponse = (
  { identifier, lastResponse }: Stripe.Response<Stripe.Billing.MeterEvent>,
  sent: string,
): AttemptOutcome => {
  if (identifier !== sent) {
    // A proxy between us and Stripe may respond with its own 200.
    return { kind: "retry", reason: "The response is not our meter event.", outcomeUnknown: true };
  }
  return isReplayed(lastResponse.headers)
    ? { kind: "duplicate", reason: "Stripe has accepted the event before." }
    : { kind: "delivered" };
};

/** Every outcome but that of an accepted event says why. */
type FailedAttempt = Exclude<AttemptOutcome, { readonly kind: "delivered" }>;

/**
 * Returns what an error means for an attempt to report usage. A response that cannot be read has no status, not even a 200.
 *
 * Stripe's documentation says to treat a 500 as indeterminate, so its outcome is unknown like that of a lost connection.
 * What Stripe decides before it looks up the idempotency key, such as 401 and 429, is not saved under it.
 */
export const outcomeOfError = (error: unknown): FailedAttempt => {
  if (!(error instanceof Stripe.errors.StripeError)) {
    // The SDK fails like this if the response is JSON but not Stripe's, such as `null`.
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "retry", reason, outcomeUnknown: true };
  }
  const { type, code, message, headers, statusCode: status = 500 } = error;
  const reason = reasonOf(error);
  const newKey = isReplayed(headers);
  if (type === "StripeIdempotencyError") {
    // Another request was made with the key. It may have been accepted with another quantity.
    return { kind: "conflict", reason };
  }
  if (code === "lock_timeout" || status === 409) {
    return { kind: "retry", reason, outcomeUnknown: false, newKey };
  }
  if (code === "rate_limit" || status === 429) {
    // A replay says nothing about the present rate.
    return newKey
      ? { kind: "retry", reason, outcomeUnknown: false, newKey }
      : { kind: "rate_limited", reason };
  }
  if (status >= 500) {
    const isSaved = newKey || headers?.["stripe-should-retry"] === "false";
    return { kind: "retry", reason, outcomeUnknown: true, newKey: isSaved };
  }
  if (status === 401 || status === 403) {
    return { kind: "misconfigured", reason, newKey };
  }
  // Not every error that Stripe calls an invalid request is final. Stripe saves these under the idempotency key.
  if (code === "duplicate_meter_event" || ALREADY_EXISTS.test(message)) {
    return { kind: "duplicate", reason };
  }
  if (code === "timestamp_in_future") {
    // Our clock is ahead of Stripe's.
    return { kind: "retry", reason, outcomeUnknown: false, newKey: true };
  }
  if (NO_METER.test(message)) {
    // Every event would be refused, and an operator can activate the meter again.
    return { kind: "misconfigured", reason, newKey: true };
  }
  return { kind: "rejected", reason };
};

/** Returns what a failed check of the meters means for the attempt that waited for it, which was not made. */
export const outcomeOfFailedCheck = (error: unknown): AttemptOutcome => {
  if (error instanceof ProcessorMismatchError) {
    return { kind: "misconfigured", reason: error.message };
  }
  const { kind, reason } = outcomeOfError(error);
  return kind === "misconfigured"
    ? { kind, reason }
    : {
        kind: "retry",
        reason: `The meters could not be checked: ${reason}`,
        outcomeUnknown: false,
      };
};
