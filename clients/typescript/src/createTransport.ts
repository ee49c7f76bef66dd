import {
  ImpactApiError,
  ImpactConnectionError,
  ImpactError,
  ImpactTimeoutError,
} from "./errors.ts";
import type { CallFacts } from "./errors.ts";

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
  /** Besides those of all requests. */
  readonly headers?: Readonly<Record<string, string>>;
};

export type Reply = { readonly data: unknown; readonly headers: Headers };

/** Sends a request, repeats it if that is allowed, and returns the JSON of the response. */
export type Send = (request: TransportRequest, options: CallOptions) => Promise<Reply>;

/** The longest time of a timer, 24 days. It would end a longer one immediately. */
const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** A service that asks for a longer wait is not asked again by the call. */
const LONGEST_RETRY_AFTER_MS = 60_000;

const FIRST_BACKOFF_MS = 500;
const LONGEST_BACKOFF_MS = 8_000;

/** Statuses that say that the request had no effect. A 503 may also be a proxy's, after the service has acted. */
const NOTHING_DONE: ReadonlySet<number> = new Set([408, 429]);

/** Statuses after which a request may or may not have had its effect. */
const UNKNOWN: ReadonlySet<number> = new Set([500, 502, 503, 504]);

/**
 * Returns the wait that the service asks for before a request is sent again; null if it may not be.
 * @param isRepeatable whether the request has the same effect if it is sent twice
 */
const retryAfterOf = (error: unknown, isRepeatable: boolean): number | null => {
  if (error instanceof ImpactConnectionError) {
    return isRepeatable ? 0 : null;
  }
  const mayRepeat =
    error instanceof ImpactApiError &&
    (NOTHING_DONE.has(error.status) || (isRepeatable && UNKNOWN.has(error.status)));
  return mayRepeat ? (error.retryAfterMs ?? 0) : null;
};

/**
 * Returns how long to wait after an attempt: twice as long each time, and at random, so that clients that failed together do
 * not come back together.
 * @param attempt the number of the attempt that failed, from 1
 * @param retryAfterMs what the service asked for; 0 if it asked for nothing
 */
export const backoffMs = (attempt: number, retryAfterMs: number, random = Math.random): number => {
  const longestMs = Math.min(LONGEST_BACKOFF_MS, FIRST_BACKOFF_MS * 2 ** (attempt - 1));
  return Math.max(retryAfterMs, longestMs / 2) + (random() * longestMs) / 2;
};

/** Reads `Retry-After`, which is a number of seconds or a date; null if there is none. */
export const readRetryAfterMs = (headers: Headers, nowMs = Date.now()): number | null => {
  const given = headers.get("Retry-After")?.trim() ?? "";
  if (/^\d{1,9}$/u.test(given)) {
    return Number(given) * 1000;
  }
  const atMs = Date.parse(given);
  return Number.isNaN(atMs) ? null : Math.max(0, atMs - nowMs);
};

/** @throws the signal's reason, if the caller aborts the call */
export const wait = async (ms: number, signal: AbortSignal | undefined): Promise<void> => {
  signal?.throwIfAborted();
  await new Promise<void>((resolve) => {
    const end = (): void => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, Math.min(ms, LONGEST_TIMER_MS));
    signal?.addEventListener("abort", end);
  });
  signal?.throwIfAborted();
};

/** Returns the URL before all paths. No error repeats the URL, which may have a password in it. */
const parseBaseUrl = (given: string | URL): string => {
  const text = String(given);
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || !/^https?:$/u.test(url.protocol)) {
    throw new ImpactError("baseUrl: must be an absolute http or https URL");
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    throw new ImpactError("baseUrl: must have no user, password, query or fragment");
  }
  return `${url.origin}${url.pathname.replace(/\/+$/u, "")}`;
};

/** Refuses what is left of the options after the known ones were taken: a program in JavaScript may misspell one. */
const refuseUnknown = (rest: object, known: string): void => {
  const [name] = Object.keys(rest);
  if (name !== undefined) {
    throw new ImpactError(`${name}: unknown option; the options are ${known}`);
  }
};

const parseJson = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
};

/** Writes query parameters: undefined and null are left out, and what is not a text is JSON. */
const queryString = (query: object = {}): string => {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null) {
      parameters.set(name, typeof value === "string" ? value : JSON.stringify(value));
    }
  }
  return parameters.size === 0 ? "" : `?${parameters.toString()}`;
};

/** Returns the error of a response that cannot be used. Its body may be that of a proxy before the service. */
const errorOf = (response: Response, body: unknown, facts: CallFacts): ImpactApiError => {
  const { status, headers, ok, type } = response;
  const { error, code }: { readonly error?: unknown; readonly code?: unknown } =
    typeof body === "object" && body !== null ? body : {};
  const isRedirect = type === "opaqueredirect" || (status >= 300 && status < 400);
  const fallback = ok
    ? "the response is not JSON: check baseUrl"
    : isRedirect
      ? "the response is a redirect: check baseUrl"
      : `the response has the status ${status} and no message`;
  const message = typeof error === "string" ? error : fallback;
  const found: Omit<ImpactApiError, keyof Error> = {
    ...facts,
    requestId: headers.get("X-Request-Id") ?? facts.requestId,
    status,
    code: typeof code === "string" ? code : null,
    body: body ?? null,
    retryAfterMs: readRetryAfterMs(headers),
  };
  return new ImpactApiError(message, found);
};

/**
 * Checks the value of a header here, because the error of `fetch` would repeat it.
 * @throws ImpactError
 */
export const checkHeaderValue = (name: string, value: string): string => {
  if (!/^[\u0021-\u007E]+$/u.test(value)) {
    throw new ImpactError(`${name}: must be visible ASCII characters without spaces`);
  }
  return value;
};

/** @param authentication the headers that authenticate a request */
export const createTransport = (
  {
    baseUrl: givenUrl,
    timeoutMs: ownTimeoutMs = 30_000,
    maxRetries: ownRetries = 3,
    fetch: ownFetch = (...request) => globalThis.fetch(...request),
    ...unknownOptions
  }: TransportOptions,
  authentication: Readonly<Record<string, string>>,
): Send => {
  const baseUrl = parseBaseUrl(givenUrl);
  refuseUnknown(
    unknownOptions,
    "baseUrl, apiKey, timeoutMs, maxRetries, fetch and, of stores, shopName and userId",
  );

  return async (
    request,
    { signal, timeoutMs = ownTimeoutMs, maxRetries = ownRetries, onResponse, ...unknown },
  ) => {
    refuseUnknown(
      unknown,
      "signal, timeoutMs, maxRetries, onResponse and, of writes, idempotencyKey",
    );
    const { method, path, query, body, headers, idempotencyKey = null } = request;
    const requestId = crypto.randomUUID();
    const isRepeatable = method === "GET" || idempotencyKey !== null;
    const init = {
      method,
      // A redirect would send the key to another address.
      redirect: "manual",
      headers: {
        ...authentication,
        ...headers,
        "X-Request-Id": requestId,
        Accept: "application/json",
        ...(body && { "Content-Type": "application/json" }),
      },
      ...(body && { body: JSON.stringify(body) }),
    } as const;

    const attempt = async (facts: CallFacts): Promise<Reply> => {
      const expiry = AbortSignal.timeout(Math.min(Math.ceil(timeoutMs), LONGEST_TIMER_MS));
      let response: Response;
      let data: unknown;
      try {
        response = await ownFetch(`${baseUrl}${path}${queryString(query)}`, {
          ...init,
          signal: signal === undefined ? expiry : AbortSignal.any([signal, expiry]),
        });
        data = parseJson(await response.text());
      } catch (cause) {
        signal?.throwIfAborted();
        throw expiry.aborted
          ? new ImpactTimeoutError(`no complete response within ${timeoutMs} ms`, facts)
          : new ImpactConnectionError("the connection failed", facts, { cause });
      }
      if (response.ok) {
        onResponse?.({ status: response.status, headers: response.headers });
      }
      if (!response.ok || data === undefined) {
        throw errorOf(response, data, facts);
      }
      return { data, headers: response.headers };
    };

    for (let attempts = 1; ; attempts += 1) {
      signal?.throwIfAborted();
      try {
        return await attempt({ requestId, idempotencyKey, attempts });
      } catch (error) {
        const retryAfterMs = retryAfterOf(error, isRepeatable);
        // Written so that NaN retries nothing.
        const mayRetry = retryAfterMs !== null && attempts <= maxRetries;
        if (!mayRetry || retryAfterMs > LONGEST_RETRY_AFTER_MS) {
          throw error;
        }
        await wait(backoffMs(attempts, retryAfterMs), signal);
      }
    }
  };
};
