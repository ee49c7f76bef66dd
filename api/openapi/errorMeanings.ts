/** What the API description says about each error of an endpoint, unless the endpoint says it in its own words. */
export const ERROR_MEANINGS = {
  request_invalid:
    "A parameter or a field is missing or malformed, or what is requested is impossible; the message says which and why.",
  key_missing: "There is no Authorization header.",
  key_invalid: "The key is invalid, or missing.",
  key_read_only: "The key is read-only.",
  balance_insufficient: "The balance does not cover the cost; nothing was recorded.",
  feature_disabled: "The operator has disabled this feature for the store.",
  subscription_inactive:
    "The organization's subscription is not active or has no price for the kind, and its registrations are suspended until " +
    "it is. A repeated request with a known idempotency_key still returns the original record.",
  outside_billing_cycle:
    "The registration is outside the current billing cycle, or too old for the payment processor to accept the refund of " +
    "its usage.",
  daily_limit_reached:
    "The operator has limited the units that the account may register on one day in UTC, and too few are left today; " +
    "nothing was recorded. The same request can succeed on the next day.",
  record_not_found: "The account has no matching record in the key's mode.",
  body_too_large: "The body is too large.",
  internal_error:
    "An unexpected error, or the charity provider or the payment processor has failed. A write may have been recorded: " +
    "where the call takes an idempotency key, repeat it with the same key. Report the X-Request-Id to the operator.",
  charity_unconfirmed:
    "The account has used its share of the requests that the charity provider accepts in a minute.",
  query_timeout:
    "The query takes too long, and the message says how to narrow it; or too many reads of the account are waiting. " +
    "Nothing was changed.",
  queue_full: "Too many requests are waiting; nothing was done. Try again.",
  service_unavailable:
    "The database or the payment processor cannot be reached, or the process is full, or too many requests of the account " +
    "are waiting; nothing was done. Try again.",
};
