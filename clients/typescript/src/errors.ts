/** The base of all errors of this package. An aborted call throws the reason of its signal instead. */
export class ImpactError extends Error {
  override name = "ImpactError";
}

export type CallFacts = Pick<CallError, "requestId" | "idempotencyKey" | "attempts">;

class CallError extends ImpactError {
  /** The id of the call in the service's log. */
  declare readonly requestId: string;
  /** The key of a write; repeat the write with it to find out whether it was recorded. Null if it has none. */
  declare readonly idempotencyKey: string | null;
  /** How often the request was sent. */
  declare readonly attempts: number;

  constructor(message: string, facts: CallFacts, options?: ErrorOptions) {
    super(message, options);
    Object.assign(this, facts);
  }
}

/** An error response of the service. */
export class ImpactApiError extends CallError {
  override name = "ImpactApiError";
  declare readonly status: number;
  /** The code of the store-platform interface, such as `INSUFFICIENT_BUDGET`; null on the standalone interface. */
  declare readonly code: string | null;
  /** The JSON of the response; null if there is none. That of a rejected batch names the rejected items. */
  declare readonly body: unknown;
  /** What `Retry-After` asks for, in milliseconds; null if there was none. */
  declare readonly retryAfterMs: number | null;
}

/** No complete response arrived. A write may have been recorded. */
export class ImpactConnectionError extends CallError {
  override name = "ImpactConnectionError";
}

/** No complete response arrived in time. A write may have been recorded. */
export class ImpactTimeoutError extends ImpactConnectionError {
  override name = "ImpactTimeoutError";
}

/** A webhook is not from the service, or too old. Respond with a 4xx. */
export class WebhookVerificationError extends ImpactError {
  override name = "WebhookVerificationError";
}
