import { Stripe } from "stripe";
import { ProcessorMismatchError } from "../processor.ts";
import type { AttemptOutcome } from "../sending/decideNextStep.rules.ts";

// Stripe has no code for these errors.
const ALREADY_EXISTS = /^An event already exists with identifier /u;
const NO_METER = /^No active meter found /u;

/** Returns why a connection failed, which the SDK's message leaves out. */
const connectionError = (detail: unknown): string[] => {
  const cause = detail instanceof Error ? (detail.cause ?? detail) : null;
  return cause instanceof Error ? [cause.message] : [];
};

/** Returns Stripe's message, and the request id that finds the call in Stripe's logs. */
const reasonOf = ({
  message,
  statusCode,
  requestId,
  detail,
}: Stripe.errors.StripeError): string => {
  const text = message || "no message";
  const status = statusCode === undefined ? [] : [`status ${statusCode}`];
  const request = requestId ? [`request ${requestId}`] : [];
  const details = [...connectionError(detail), ...status, ...request].join(", ");
  return details ? `${text} (${details})` : text;
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

/** Not every error that Stripe calls an invalid request is final. Stripe saves it under the idempotency key. */
const outcomeOfInvalidRequest = (
  { code, message }: Stripe.errors.StripeError,
  reason: string,
): AttemptOutcome => {
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

/**
 * Returns what an error means for an attempt to report usage. It goes by `error.type`, which the SDK derives from the
 * HTTP status: every 409 is a `StripeAPIError`, and so is an unreadable body, without a status, even with a 200.
 *
 * Stripe's documentation says to treat a 500 as indeterminate, so its outcome is unknown like that of a lost connection.
 * What Stripe decides before it looks up the idempotency key, such as 401 and 429, is not saved under it.
 */
export const outcomeOfError = (error: unknown): AttemptOutcome => {
  if (!(error instanceof Stripe.errors.StripeError)) {
    // The SDK fails like this if the response is JSON but not Stripe's, such as `null`.
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "retry", reason, outcomeUnknown: true };
  }
  const reason = reasonOf(error);
  const newKey = isReplayed(error.headers);
  const retry = (outcomeUnknown: boolean): AttemptOutcome => ({
    kind: "retry",
    reason,
    outcomeUnknown,
    newKey,
  });
  if (error.code === "lock_timeout") {
    return retry(false);
  }
  switch (error.type) {
    case "StripeInvalidRequestError":
      return outcomeOfInvalidRequest(error, reason);
    case "StripeIdempotencyError":
      // Another request was made with the key. It may have been accepted with another quantity.
      return { kind: "conflict", reason };
    case "StripeConnectionError":
      return retry(true);
    case "StripeRateLimitError":
    case "RateLimitError":
      // A replay says nothing about the present rate.
      return newKey ? retry(false) : { kind: "rate_limited", reason };
    case "StripeAuthenticationError":
    case "StripePermissionError":
      return { kind: "misconfigured", reason, newKey };
    case "StripeAPIError":
      if (error.statusCode === undefined) {
        return retry(true);
      }
      if (error.statusCode >= 500) {
        return error.headers?.["stripe-should-retry"] === "false"
          ? { kind: "retry", reason, outcomeUnknown: true, newKey: true }
          : retry(true);
      }
      return error.statusCode === 409 ? retry(false) : { kind: "rejected", reason };
    default:
      return { kind: "rejected", reason };
  }
};

/** Returns what a failed check of the meters means for the attempt that waited for it, which was not made. */
export const outcomeOfFailedCheck = (error: unknown): AttemptOutcome => {
  if (error instanceof ProcessorMismatchError) {
    return { kind: "misconfigured", reason: error.message };
  }
  const outcome = outcomeOfError(error);
  return outcome.kind === "misconfigured" || !("reason" in outcome)
    ? outcome
    : {
        kind: "retry",
        reason: `The meters could not be checked: ${outcome.reason}`,
        outcomeUnknown: false,
      };
};
