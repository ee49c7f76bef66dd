import { z } from "zod";
import type { ApiErrorCode, PresentError } from "../../runtime/errorStatus.ts";
import type { DocumentedError } from "../http/endpoint.ts";
import { responseObject } from "../http/parseRequest.ts";

const STORE_CODES = {
  request_invalid: "INVALID_PARAMETER",
  request_malformed: "INVALID_PARAMETER",
  request_timeout: "INVALID_PARAMETER",
  expectation_failed: "INVALID_PARAMETER",
  headers_too_large: "INVALID_PARAMETER",
  usage_not_on_file: "INVALID_PARAMETER",
  outside_billing_cycle: "INVALID_PARAMETER",
  charity_not_found: "INVALID_PARAMETER",
  donations_not_subscribed: "INVALID_PARAMETER",
  subscription_inactive: "INVALID_PARAMETER",
  key_missing: "UNAUTHORIZED",
  signature_invalid: "UNAUTHORIZED",
  key_type_wrong: "WRONG_KEY_TYPE",
  store_unknown: "INVALID_SHOP",
  store_key_invalid: "INVALID_KEY",
  key_invalid: "INVALID_KEY",
  key_read_only: "READ_ONLY_KEY",
  balance_insufficient: "INSUFFICIENT_BUDGET",
  feature_disabled: "FEATURE_DISABLED",
  daily_limit_reached: "DAILY_LIMIT_REACHED",
  record_not_found: "NOT_FOUND",
  event_gone: "NOT_FOUND",
  path_not_found: "NOT_FOUND",
  method_not_allowed: "METHOD_NOT_ALLOWED",
  body_too_large: "PAYLOAD_TOO_LARGE",
  rate_limited: "OVERLOADED",
  charity_unconfirmed: "OVERLOADED",
  queue_full: "OVERLOADED",
  query_timeout: "OVERLOADED",
  service_unavailable: "OVERLOADED",
  internal_error: "INTERNAL_ERROR",
} as const satisfies Record<ApiErrorCode, string>;

export const errorBody = responseObject("Error", {
  error: z.string(),
  code: z.enum([...new Set(Object.values(STORE_CODES))]),
});

export const presentStoreError: PresentError = (code, error) => ({
  error,
  code: STORE_CODES[code],
});

export const KEY_ERRORS: readonly DocumentedError[] = [
  [
    "key_missing",
    "`UNAUTHORIZED`: the header api_key is missing, or both shop_name and user_id. `WRONG_KEY_TYPE`: the key belongs to " +
      "the standalone interface. `INVALID_KEY`: the key is unknown, revoked, expired or of another store. " +
      "`INVALID_SHOP`: the store is unknown or uninstalled.",
  ],
];
