import { jsonResponse } from "./responses.ts";
import type { HttpResponse } from "./responses.ts";

/**
 * How a call fails. By default the call has no effect. With `applied`, the double first executes the call and then fails
 * in this way: the effect is there, and the caller cannot know.
 * - `drop`: the connection is reset without a response.
 * - `truncate`: the connection is reset in the middle of the response.
 * - `hang`: there is never a response.
 * - `hold`: the normal response after `release` is called.
 * - `rate_limit`, `lock_timeout`: 429s.
 * - `server_error`: a 500 that may be retried. `server_error_saved`: a 500 that its idempotency key repeats for 24 hours.
 * - `bad_gateway`: a 502 in HTML. `broken_json`: a 200 with an incomplete body.
 * - `reject_later`: a 200, then an asynchronous rejection with `code`: the event is never billed.
 * - `respond`: the given `status`, `headers` and `body`.
 */
export type Fault = {
  readonly kind:
    | "drop"
    | "truncate"
    | "hang"
    | "hold"
    | "rate_limit"
    | "lock_timeout"
    | "server_error"
    | "server_error_saved"
    | "bad_gateway"
    | "broken_json"
    | "reject_later"
    | "respond";
  readonly applied?: boolean;
  /** How many calls it affects; 1 by default. */
  readonly times?: number;
  /** Affects only calls of this path, by default `/v1/billing/meter_events`. */
  readonly path?: string;
  /** Affects only calls of this method, by default `POST`. */
  readonly method?: string;
  /** Affects only calls whose parameters contain this text: a customer, an identifier, a meter's event name. */
  readonly mentioning?: string;
  readonly code?: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
};

/** Stripe refuses the call. */
export const refusal = (status: number, message: string, call: Partial<Fault> = {}): Fault => ({
  kind: "respond",
  status,
  body: { error: { type: "invalid_request_error", message } },
  ...call,
});

export const REFUSED = refusal(400, "Refused for the test.");

/** After these, a call is repeated or its outcome is asked about, whether Stripe has done it or not. */
export const PASSING_FAULTS: readonly Fault[] = [
  { kind: "drop" },
  { kind: "drop", applied: true },
  { kind: "truncate", applied: true },
  { kind: "server_error" },
  { kind: "server_error_saved" },
  { kind: "server_error_saved", applied: true },
  { kind: "rate_limit" },
  { kind: "lock_timeout" },
  { kind: "bad_gateway" },
  { kind: "bad_gateway", applied: true },
  { kind: "broken_json", applied: true },
];

const tooMany = (code: string, message: string): HttpResponse =>
  jsonResponse(429, { error: { type: "invalid_request_error", code, message } });

const failure = (mayRetry: boolean): HttpResponse =>
  jsonResponse(
    500,
    { error: { type: "api_error", message: "An unknown error occurred." } },
    { "stripe-should-retry": String(mayRetry) },
  );

/** The responses that replace the normal one. The other faults affect only the timing or the connection. */
const REPLACEMENTS: Partial<Record<Fault["kind"], HttpResponse>> = {
  rate_limit: tooMany("rate_limit", "Request rate limit exceeded."),
  lock_timeout: tooMany(
    "lock_timeout",
    "This object cannot be accessed right now because another request is using it.",
  ),
  server_error: failure(true),
  server_error_saved: failure(false),
  bad_gateway: {
    status: 502,
    headers: { "content-type": "text/html" },
    body: "<html><body><h1>502 Bad Gateway</h1></body></html>",
  },
  broken_json: { ...jsonResponse(200, {}), body: '{"object": ' },
};

/** Returns the response that replaces the normal one, or null if the fault has none. */
export const faultResponse = ({ kind, status, headers, body }: Fault): HttpResponse | null =>
  kind === "respond"
    ? {
        ...jsonResponse(status ?? 500, body ?? {}, headers),
        ...(typeof body === "string" ? { body } : {}),
      }
    : (REPLACEMENTS[kind] ?? null);

export const createFaults = () => {
  let active: { fault: Fault; left: number }[] = [];
  return {
    add: (fault: Fault): void => {
      active.push({ fault, left: fault.times ?? 1 });
    },
    clear: (): void => {
      active = [];
    },
    /** Returns the first fault that affects the call, and counts the call against its `times`. */
    take: ({ method, path, form }: Readonly<Record<"method" | "path" | "form", string>>) => {
      const entry = active.find(
        ({ fault, left }) =>
          left > 0 &&
          method === (fault.method ?? "POST") &&
          path === (fault.path ?? "/v1/billing/meter_events") &&
          (fault.mentioning === undefined || form.includes(encodeURIComponent(fault.mentioning))),
      );
      if (!entry) {
        return null;
      }
      entry.left -= 1;
      return entry.fault;
    },
  };
};

export type Faults = ReturnType<typeof createFaults>;
