import type { ErrorCode } from "./errors.rules.ts";

/** The HTTP status of each error that an API response can report, the same on both interfaces. */
export const ERROR_STATUS = {
  request_invalid: 400,
  request_malformed: 400,
  usage_not_on_file: 400,
  charity_not_found: 400,
  donations_not_subscribed: 400,
  key_missing: 401,
  key_type_wrong: 401,
  store_unknown: 401,
  store_key_invalid: 401,
  signature_invalid: 401,
  balance_insufficient: 402,
  key_invalid: 403,
  key_read_only: 403,
  outside_billing_cycle: 403,
  subscription_inactive: 403,
  feature_disabled: 403,
  daily_limit_reached: 403,
  record_not_found: 404,
  path_not_found: 404,
  method_not_allowed: 405,
  request_timeout: 408,
  event_gone: 410,
  body_too_large: 413,
  expectation_failed: 417,
  rate_limited: 429,
  headers_too_large: 431,
  internal_error: 500,
  charity_unconfirmed: 503,
  queue_full: 503,
  query_timeout: 503,
  service_unavailable: 503,
} satisfies Record<ErrorCode, number> & Readonly<Record<string, number>>;

export type ApiErrorCode = keyof typeof ERROR_STATUS;

/** Errors of HTTP itself, before or beside what the domain decides. */
export type HttpErrorCode = Exclude<ApiErrorCode, ErrorCode>;

/** Builds the body of an error response in an interface's own shape. */
export type PresentError = (code: ApiErrorCode, message: string) => object;
