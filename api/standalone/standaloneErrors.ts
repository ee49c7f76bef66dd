import { RETRY_AFTER } from "../http/endpoint.ts";
import type { ErrorResponse } from "../http/endpoint.ts";
import { z } from "zod";
import type { ApiErrorCode } from "../../runtime/errorStatus.ts";

/** The body of every error response of the standalone interface. */
export const errorBody = z.strictObject({ error: z.string() }).meta({ id: "Error" });

export const presentError = (_code: ApiErrorCode, message: string): z.output<typeof errorBody> => ({
  error: message,
});

export const KEY_ERROR: ErrorResponse = {
  code: "key_invalid",
  when: "The key is missing or invalid.",
  example: "invalid API key",
};

export const SUSPENDED_ERROR: ErrorResponse = {
  code: "subscription_inactive",
  when: "The organization's subscription is not active or has no price for the kind, and its registrations are suspended until it is. A repeated request with a known idempotency_key still returns the original record.",
  example: "registrations are suspended because the organization's subscription is past_due",
};

export const QUEUE_ERROR: ErrorResponse = {
  code: "queue_full",
  when: "Too many requests are waiting; nothing was recorded. Try again.",
  example: "too many requests are waiting, try again",
  headers: RETRY_AFTER,
};

/** For calls that may read an organization's billing period at the processor. */
export const PROCESSOR_ERROR: ErrorResponse = {
  code: "service_unavailable",
  when: "The database or the payment processor cannot be reached, or too many requests of this account are waiting for it; nothing was done. Try again.",
  example: "the payment processor is temporarily unavailable, try again",
  headers: RETRY_AFTER,
};
