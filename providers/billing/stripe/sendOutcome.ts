import { Stripe } from "stripe";
import type { SendOutcome } from "../processor.ts";

const ALREADY_THERE = /^An event already exists with identifier /u;

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

/**
 * What a failed attempt to report usage means. By `err.type`, which the SDK derives from the HTTP status first: a 409 of
 * any type is a `StripeAPIError`; an unreadable body is one without a status, even under a 200.
 *
 * Stripe asks to treat a 500 as undecided, so it counts as an unknown outcome like a lost connection.
 */
export const outcomeOfError = (error: unknown): SendOutcome => {
  if (!(error instanceof Stripe.errors.StripeError)) {
    // The SDK stumbles like this over an answer that is JSON but nothing of Stripe's, such as `null`.
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: "retry", reason, outcomeUnknown: true };
  }
  const reason = reasonOf(error);
  const retry = (outcomeUnknown: boolean): SendOutcome => ({
    kind: "retry",
    reason,
    outcomeUnknown,
  });
  if (error.code === "lock_timeout") {
    return retry(false);
  }
  switch (error.type) {
    case "StripeInvalidRequestError":
      return error.code === "duplicate_meter_event" || ALREADY_THERE.test(error.message)
        ? { kind: "delivered", duplicate: true }
        : { kind: "rejected", reason };
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
