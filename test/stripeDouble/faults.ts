import type { Answer } from "./idempotency.ts";

/**
 * What happens to a call. With `applied` the double does first what was asked and then answers in this way: the effect is
 * there and the caller cannot know.
 * - `drop`: the connection is reset without an answer.
 * - `truncate`: it is reset in the middle of the answer.
 * - `hang`: there is never an answer.
 * - `slow`: a proper answer after `delayMs`. `hold`: one that takes until `release` is called.
 * - `rate_limit`, `lock_timeout`: 429s.
 * - `server_error`: a 500 that may be repeated; `server_error_saved`: one that its idempotency key repeats for 24 hours.
 * - `bad_gateway`: a 502 in HTML. `broken_json`: a 200 that cannot be read.
 * - `reject_later`: a 200, then an asynchronous refusal with `code`: the event is never billed.
 * - `answer`: `status`, `headers` and `body` as given.
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
    | "answer";
  readonly applied?: boolean;
  /** How many calls it hits; 1 by default. */
  readonly times?: number;
  /** The calls that it hits, by path (`/v1/billing/meter_events` by default) and method (`POST` by default). */
  readonly path?: string;
  readonly method?: string;
  /** Only calls whose form mentions this text: a customer, an identifier, a meter's event name. */
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
): Answer => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify({ error }),
});

/** What the caller sees in place of the proper answer; null where the fault changes only what surrounds it. */
export const faultAnswer = ({ kind, status, headers, body }: Fault): Answer | null => {
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
    case "answer":
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
  /** The first fault that is due for this call, which then is used up by one. */
  readonly take: (call: { method: string; path: string; form: string }) => Fault | null;
};

export const createFaults = (): Faults => {
  let due: { fault: Fault; left: number }[] = [];
  return {
    add: (fault) => {
      due.push({ fault, left: fault.times ?? 1 });
    },
    clear: () => {
      due = [];
    },
    take: ({ method, path, form }) => {
      const entry = due.find(
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
