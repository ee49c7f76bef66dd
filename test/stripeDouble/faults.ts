import { createRandom } from "../support/random.ts";
import { jsonResponse } from "./httpResponse.ts";
import type { HttpResponse } from "./httpResponse.ts";

/**
 * How a call fails. By default the call has no effect. With `applied`, the double first executes the call and then fails
 * in this way: the effect is there, and the caller cannot know.
 * - `drop`: the connection is reset without a response.
 * - `truncate`: the connection is reset in the middle of the response.
 * - `hang`: there is never a response.
 * - `slow`: the normal response after `delayMs`. `hold`: the normal response after `release` is called.
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
    | "slow"
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
  /** Affects each call with this probability, always in the same pattern; 1 by default. */
  readonly probability?: number;
  /** Affects only calls whose parameters contain this text: a customer, an identifier, a meter's event name. */
  readonly mentioning?: string;
  readonly delayMs?: number;
  readonly code?: string;
  readonly status?: number;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: unknown;
};

const jsonError = (
  status: number,
  error: Record<string, string>,
  headers: Record<string, string> = {},
): HttpResponse => jsonResponse(status, { error }, headers);

/** Returns the response that replaces the normal one, or null if the fault affects only the timing or the connection. */
export const faultResponse = ({ kind, status, headers, body }: Fault): HttpResponse | null => {
  switch (kind) {
    case "rate_limit":
      return jsonError(429, {
        type: "invalid_request_error",
        code: "rate_limit",
        message: "Request rate limit exceeded.",
      });
    case "lock_timeout":
      return jsonError(429, {
        type: "invalid_request_error",
        code: "lock_timeout",
        message: "This object cannot be accessed right now because another request is using it.",
      });
    case "server_error":
      return jsonError(
        500,
        { type: "api_error", message: "An unknown error occurred." },
        { "stripe-should-retry": "true" },
      );
    case "server_error_saved":
      return jsonError(
        500,
        { type: "api_error", message: "An unknown error occurred." },
        { "stripe-should-retry": "false" },
      );
    case "bad_gateway":
      return {
        status: 502,
        headers: { "content-type": "text/html" },
        body: "<html><body><h1>502 Bad Gateway</h1></body></html>",
      };
    case "broken_json":
      return { status: 200, headers: { "content-type": "application/json" }, body: '{"object": ' };
    case "respond":
      return {
        status: status ?? 500,
        headers: { "content-type": "application/json", ...headers },
        body: typeof body === "string" ? body : JSON.stringify(body ?? {}),
      };
    case "drop":
    case "truncate":
    case "hang":
    case "slow":
    case "hold":
    case "reject_later":
      return null;
    default:
      return kind satisfies never;
  }
};

export type Faults = {
  readonly add: (fault: Fault) => void;
  readonly clear: () => void;
  /** Returns the first fault that affects the call, and counts the call against its `times`. */
  readonly take: (call: { method: string; path: string; form: string }) => Fault | null;
};

export const createFaults = (): Faults => {
  let active: { fault: Fault; left: number }[] = [];
  const random = createRandom(1);
  return {
    add: (fault) => {
      active.push({ fault, left: fault.times ?? 1 });
    },
    clear: () => {
      active = [];
    },
    take: ({ method, path, form }) => {
      const entry = active.find(
        ({ fault, left }) =>
          left > 0 &&
          method === (fault.method ?? "POST") &&
          path === (fault.path ?? "/v1/billing/meter_events") &&
          (fault.mentioning === undefined || form.includes(encodeURIComponent(fault.mentioning))) &&
          (fault.probability === undefined || random.next() < fault.probability),
      );
      if (!entry) {
        return null;
      }
      entry.left -= 1;
      return entry.fault;
    },
  };
};
