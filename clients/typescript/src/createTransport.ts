import type { CallFacts } from "./errors.ts";
import {
  ImpactApiError,
  ImpactConnectionError,
  ImpactError,
  ImpactTimeoutError,
} from "./errors.ts";
import { keyHeader, parseBaseUrl, queryString, refuseUnknown } from "./parseOptions.ts";
import {
  backoffMs,
  isRetryable,
  LONGEST_RETRY_AFTER_MS,
  readRetryAfterMs,
  wait,
} from "./retries.ts";
import type { ErrorFields } from "./retries.ts";

export type TransportOptions = {
  /** Where the interface listens, such as `https://impact.example.com`. A path in it is kept. */
  readonly baseUrl: string | URL;
  /** How long an attempt may take; 30 seconds by default. */
  readonly timeoutMs?: number;
  /** How often a call is repeated, if it may be; 3 by default. */
  readonly maxRetries?: number;
  /** Replaces the global `fetch`. */
  readonly fetch?: typeof fetch;
};

export type CallOptions = {
  /** Ends the call, also while it waits before a retry. The call then throws the signal's reason. */
  readonly signal?: AbortSignal;
  readonly timeoutMs?: number;
  readonly maxRetries?: number;
  /** Called with the status and headers of each successful response, such as `Idempotent-Replayed`. */
  readonly onResponse?: (response: { readonly status: number; readonly headers: Headers }) => void;
};

export type TransportRequest = {
  readonly method: string;
  /** Begins with a slash. */
  readonly path: string;
  readonly query?: object | undefined;
  readonly body?: object | undefined;
  /** The key of a write, which makes it repeatable; null if it has none. */
  readonly idempotencyKey?: string | null;
  /** Whether the key is in the body already. */
  readonly isKeyInBody?: boolean;
  /** Sent without the API key and without headers, so that browsers need no permission of the service. */
  readonly isPublic?: boolean;
};

export type Reply = { readonly data: unknown; readonly headers: Headers };

/** Sends a request, repeats it if that is allowed, and returns the JSON of the response. */
export type Send = (request: TransportRequest, options: CallOptions) => Promise<Reply>;

/** The headers that authenticate a request; null without a key. */
type Authentication = Readonly<Record<string, string>> | null;

/** An attempt that got no successful response. */
type Failure = {
  readonly error: ImpactApiError | ImpactConnectionError;
  readonly mayRepeat: boolean;
};

type Success = { readonly response: Response; readonly text: string };

const CLIENT_OPTIONS =
  "baseUrl, apiKey, timeoutMs, maxRetries, fetch and, of stores, shopName and userId";
const CALL_OPTIONS = "signal, timeoutMs, maxRetries, onResponse and, of writes, idempotencyKey";

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

const isRedirect = ({ status, type }: Response): boolean =>
  type === "opaqueredirect" || (status >= 300 && status < 400);

const errorOf = (response: Response, text: string, facts: CallFacts): ImpactApiError => {
  const { status, headers } = response;
  const body = parseJson(text);
  // Another body is not the service's, but that of a proxy before it.
  const { error, code }: { readonly error?: unknown; readonly code?: unknown } =
    typeof body === "object" && body !== null ? body : {};
  const fallback = isRedirect(response)
    ? "the response is a redirect: check baseUrl"
    : `the response has the status ${status} and no message`;
  return new ImpactApiError(typeof error === "string" ? error : fallback, {
    ...facts,
    requestId: headers.get("X-Request-Id") ?? facts.requestId,
    status,
    code: typeof code === "string" ? code : null,
    body: body ?? null,
    retryAfterMs: readRetryAfterMs(headers),
  });
};

const initOf = (
  { method, body, idempotencyKey = null, isKeyInBody = false, isPublic = false }: TransportRequest,
  authentication: Authentication,
  requestId: string,
): RequestInit => {
  if (isPublic) {
    return { method };
  }
  if (authentication === null) {
    throw new ImpactError("apiKey: this call needs a key");
  }
  return {
    method,
    // A redirect would send the key to another address.
    redirect: "manual",
    headers: {
      ...authentication,
      Accept: "application/json",
      "X-Request-Id": requestId,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...(idempotencyKey === null || isKeyInBody
        ? {}
        : { "Idempotency-Key": keyHeader(idempotencyKey) }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
};

const readReply = ({ response, text }: Success, facts: CallFacts): Reply => {
  const { status, headers } = response;
  const data = parseJson(text);
  if (data === undefined) {
    const none = { code: null, body: null, retryAfterMs: null };
    throw new ImpactApiError("the response is not JSON: check baseUrl", {
      ...facts,
      ...none,
      status,
    });
  }
  return { data, headers };
};

/** @param errorFields the fields of the interface's errors */
export const createTransport = (
  {
    baseUrl: givenUrl,
    timeoutMs: ownTimeoutMs = 30_000,
    maxRetries: ownRetries = 3,
    fetch: ownFetch,
    ...unknownOptions
  }: TransportOptions,
  authentication: Authentication,
  errorFields: ErrorFields,
): Send => {
  const baseUrl = parseBaseUrl(givenUrl);
  refuseUnknown(unknownOptions, CLIENT_OPTIONS);
  const fetchNow: typeof fetch = (input, init) => (ownFetch ?? globalThis.fetch)(input, init);

  return async (
    request,
    { signal, timeoutMs = ownTimeoutMs, maxRetries = ownRetries, onResponse, ...unknown },
  ) => {
    refuseUnknown(unknown, CALL_OPTIONS);
    const requestId = crypto.randomUUID();
    const idempotencyKey = request.idempotencyKey ?? null;
    const isRepeatable = request.method === "GET" || idempotencyKey !== null;
    const url = `${baseUrl}${request.path}${queryString(request.query)}`;
    const init = initOf(request, authentication, requestId);

    const attempt = async (facts: CallFacts): Promise<Success | Failure> => {
      const expiry = AbortSignal.timeout(timeoutMs);
      try {
        const response = await fetchNow(url, {
          ...init,
          signal: signal === undefined ? expiry : AbortSignal.any([signal, expiry]),
        });
        const text = await response.text();
        if (response.ok) {
          return { response, text };
        }
        const error = errorOf(response, text, facts);
        return { error, mayRepeat: isRetryable(error, isRepeatable, errorFields) };
      } catch (cause) {
        signal?.throwIfAborted();
        return {
          error: expiry.aborted
            ? new ImpactTimeoutError(`no complete response within ${timeoutMs} ms`, facts)
            : new ImpactConnectionError("the connection failed", facts, { cause }),
          mayRepeat: isRepeatable,
        };
      }
    };

    for (let attempts = 1; ; attempts += 1) {
      signal?.throwIfAborted();
      const facts = { requestId, idempotencyKey, attempts };
      const outcome = await attempt(facts);
      if ("response" in outcome) {
        const { status, headers } = outcome.response;
        onResponse?.({ status, headers });
        return readReply(outcome, facts);
      }
      const { error, mayRepeat } = outcome;
      const retryAfterMs = (error instanceof ImpactApiError ? error.retryAfterMs : null) ?? 0;
      // Written so that NaN retries nothing.
      const mayRetry = mayRepeat && attempts <= maxRetries;
      if (!mayRetry || retryAfterMs > LONGEST_RETRY_AFTER_MS) {
        throw error;
      }
      await wait(backoffMs(attempts, retryAfterMs), signal);
    }
  };
};
