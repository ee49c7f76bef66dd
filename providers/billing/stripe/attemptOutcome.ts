import { Stripe } from "stripe";
import { ProcessorMismatchError } from "../processor.ts";
import type { AttemptOutcome } from "../../../domain/billing/decideNextStep.ts";

// Stripe gives neither of them a code.
const ALREADY_THERE = /^An event already exists with identifier /u;
const NO_METER = /^No active meter found /u;

/** Why a connection failed, which the SDK's own message leaves out. */
const connectionFault = (detail: unknown): string[] => {
  const cause = detail instanceof Error ? (detail.cause ?? detail) : null;
  return cause instanceof Error ? [cause.message] : [];
};

/** What Stripe said and the id to find the call by in its logs. */
const reasonOf = ({
  message,
  statusCode,
  requestId,
  detail,
}: Stripe.errors.StripeError): string => {
  const words = message || "no message";
  const status = statusCode === undefined ? [] : [`status ${statusCode}`];
  const request = requestId ? [`request ${requestId}`] : [];
  const where = [...connectionFault(detail), ...status, ...request].join(", ");
  return where ? `${words} (${where})` : words;
};

/** What Stripe means by a request that it calls invalid: not all of them are for good. */
const outcomeOfInvalidRequest = (
  { code, message }: Stripe.errors.StripeError,
  reason: string,
): AttemptOutcome => {
  if (code === "duplicate_meter_event" || ALREADY_THERE.test(message)) {
    return { kind: "delivered", duplicate: true };
  }
  if (code === "timestamp_in_future") {
    // Our clock is ahead of Stripe's: time mends it.
    return { kind: "retry", reason, outcomeUnknown: false };
  }
  // Without its meter every event would be refused alike; somebody has deactivated it and can mend it.
  return { kind: NO_METER.test(message) ? "misconfigured" : "rejected", reason };
};

/**
 * What a failed attempt to report usage means. By `err.type`, which the SDK derives from the HTTP status first: a 409 of
 * any type is a `StripeAPIError`; an unreadable body is one without a status, even under a 200.
 *
 * Stripe asks to treat a 500 as undecided, so it counts as an unknown outcome like a lost connection.
 */
export const outcomeOfError = (error: unknown): AttemptOutcome => {
  if (!(error instanceof Stripe.errors.StripeError)) {
    // The SDK stumbles like this over an answer that is JSON but nothing of Stripe's, such as `null`.
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "retry", reason, outcomeUnknown: true };
  }
  const reason = reasonOf(error);
  const retry = (outcomeUnknown: boolean): AttemptOutcome => ({
    kind: "retry",
    reason,
    outcomeUnknown,
  });
  if (error.code === "lock_timeout") {
    return retry(false);
  }
  switch (error.type) {
    case "StripeInvalidRequestError":
      return outcomeOfInvalidRequest(error, reason);
    case "StripeConnectionError":
      return retry(true);
    case "StripeRateLimitError":
    case "RateLimitError":
      return retry(false);
    case "StripeAuthenticationError":
    case "StripePermissionError":
      return { kind: "misconfigured", reason };
    case "StripeAPIError":
      if (error.statusCode === undefined) {
        return retry(true);
      }
      if (error.statusCode >= 500) {
        return error.headers?.["stripe-should-retry"] === "false"
          ? { kind: "retry_new_key", reason }
          : retry(true);
      }
      return error.statusCode === 409 ? retry(false) : { kind: "rejected", reason };
    default:
      return { kind: "rejected", reason };
  }
};

/** What a failed check of the meters means for an attempt that waited for it: it was surely not made. */
export const outcomeOfFailedCheck = (error: unknown): AttemptOutcome => {
  if (error instanceof ProcessorMismatchError) {
    return { kind: "misconfigured", reason: error.message };
  }
  const outcome = outcomeOfError(error);
  if (outcome.kind === "misconfigured") {
    return outcome;
  }
  const why = "reason" in outcome ? outcome.reason : outcome.kind;
  return {
    kind: "retry",
    reason: `The meters could not be checked: ${why}`,
    outcomeUnknown: false,
  };
};
