/** Every refusal the service can give. The HTTP status and the exit code are the edges' business. */
export type ErrorCode =
  | "request_invalid"
  | "key_invalid"
  | "record_not_found"
  | "usage_not_on_file"
  | "outside_billing_cycle"
  | "queue_full"
  | "charity_not_found"
  | "donations_not_subscribed"
  | "rate_limited"
  | "balance_insufficient"
  | "feature_disabled";

/** A refusal that the caller can act on. Anything else that is thrown is a bug or an outage. */
export class DomainError extends Error {
  override readonly name = "DomainError";
  readonly code: ErrorCode;

  constructor(code: ErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

/** Something that the service depends on has failed. The message is for the client, the cause for the log. */
export class OutageError extends Error {
  override readonly name = "OutageError";
}
