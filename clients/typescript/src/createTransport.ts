import type { CallFacts } from "./errors.ts";
import {
  ImpactApiError,
  ImpactConnectionError,
  ImpactError,
  ImpactTimeoutError,
} from "./errors.ts";
import {
  checkDuration,
  checkRetries,
  keyHeader,
  parseBaseUrl,
  queryString,
  refuseUnknown,
} from "./parseOptions.ts";
import { backoffMs, isRetryable, LONGEST_RETRY_AFTER_MS, readRetryAfterMs } from "./retries.ts";
import type { ErrorFields } from "./retries.ts";
import { startDeadline, wait } from "./startDeadline.ts";
import type { Deadline } from "./startDeadline.ts";

export type TransportOptions = {
  /** Where the interface listens, such as `https://impact.example.com`. A path in it is kept. */
  readonly baseUrl: string | URL;
  /** How long an attempt may take, and how long a streamed list may pause; 30 seconds by default. */
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
  readonly accept?: string;
  /** The key of a write, which makes it repeatable; null if it has none. */
  readonly idempotencyKey?: string | null;
  /** Whether the key is in the body already. */
  readonly isKeyInBody?: boolean;
  /** Sent without the API key and without headers, so that browsers need no permission of the service. */
  readonly isPublic?: boolean;
};

export type Reply = { readonly data: unknown; readonly headers: Headers };

export type Transport = {
  /** Returns the JSON of the response. */
  readonly send: (request: TransportRequest, options: CallOptions) => Promise<Reply>;
  /** Yields the text of the response as it arrives. Not repeated once it has begun. */
  readonly stream: (
    request: TransportRequest,
    options: CallOptions,
  ) => AsyncGenerator<string, void, void>;
};

/** The headers that authenticate a request; null without a key. */
type Authentication = Readonly<Record<string, string>> | null;

type Success<Result> = { readonly result: Result; readonly response: Response };

/** An attempt that got no successful response, or only a part of it. */
type Failure = {
  readonly error: ImpactApiError | ImpactConnectionError;
  readonly mayRepeat: boolean;
};

/** A successful response whose body is still to be read. */
type Opened = {
  readonly response: Response;
  readonly deadline: Deadline;
  readonly facts: CallFacts;
};

const DEFAULT_TIMEOUT_MS = 30_000;
const DEFAULT_RETRIES = 3;

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

const readError = async (response: Response, facts: CallFacts): Promise<ImpactApiError> => {
  const { status, headers } = response;
  const body = parseJson(await response.text());
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

/** Returns the error of an attempt without a complete response. */
const connectionError = (
  cause: unknown,
  { deadline, facts, timeoutMs }: Omit<Opened, "response"> & { readonly timeoutMs: number },
): ImpactConnectionError =>
  deadline.hasExpired()
    ? new ImpactTimeoutError(`no complete response within ${timeoutMs} ms`, facts)
    : new ImpactConnectionError("the connection failed", facts, { cause });

const readText = async (opened: Opened) => {
  const text = await opened.response.text();
  opened.deadline.end();
  return { ...opened, text };
};

const initOf = (
  {
    method,
    body,
    accept = "application/json",
    idempotencyKey = null,
    isKeyInBody = false,
    isPublic = false,
  }: TransportRequest,
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
      Accept: accept,
      "X-Request-Id": requestId,
      ...(body === undefined ? {} : { "Content-Type": "application/json" }),
      ...(idempotencyKey === null || isKeyInBody
        ? {}
        : { "Idempotency-Key": keyHeader(idempotencyKey) }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  };
};

/** Returns the JSON of a response. */
const readReply = ({ text, facts, response }: Awaited<ReturnType<typeof readText>>): Reply => {
  const data = parseJson(text);
  if (data === undefined) {
    throw new ImpactApiError("the response is not JSON: check baseUrl", {
      ...facts,
      status: response.status,
      code: null,
      body: null,
      retryAfterMs: null,
    });
  }
  return { data, headers: response.headers };
};

/** Yields the text of a response as it arrives. */
async function* readParts(
  { response, deadline, facts }: Opened,
  timeoutMs: number,
  signal: AbortSignal | undefined,
): AsyncGenerator<string, void, void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  try {
    for (;;) {
      deadline.restart();
      const part = await reader?.read();
      // The program may take its time with a part.
      deadline.pause();
      if (part === undefined || part.done) {
        return;
      }
      yield part.value;
    }
  } catch (cause) {
    signal?.throwIfAborted();
    throw connectionError(cause, { deadline, facts, timeoutMs });
  } finally {
    deadline.end();
  }
}

/**
 * Sends requests, and repeats those that may be repeated.
 * @param errorFields the fields of the interface's errors
 */
export const createTransport = (
  {
    baseUrl: givenUrl,
    timeoutMs: ownTimeoutMs = DEFAULT_TIMEOUT_MS,
    maxRetries: ownRetries = DEFAULT_RETRIES,
    fetch: ownFetch,
    ...unknownOptions
  }: TransportOptions,
  authentication: Authentication,
  errorFields: ErrorFields,
): Transport => {
  const baseUrl = parseBaseUrl(givenUrl);
  refuseUnknown(unknownOptions, CLIENT_OPTIONS);
  checkDuration("timeoutMs", ownTimeoutMs);
  checkRetries(ownRetries);
  const fetchNow: typeof fetch = (input, init) => (ownFetch ?? globalThis.fetch)(input, init);

  /** Returns what `read` makes of the first successful response. If `read` fails, the request is repeated, too. */
  const run = async <Result>(
    request: TransportRequest,
    {
      signal,
      timeoutMs = ownTimeoutMs,
      maxRetries = ownRetries,
      onResponse,
      ...unknown
    }: CallOptions,
    read: (opened: Opened) => Promise<Result>,
  ): Promise<Result> => {
    refuseUnknown(unknown, CALL_OPTIONS);
    checkDuration("timeoutMs", timeoutMs);
    checkRetries(maxRetries);
    const requestId = crypto.randomUUID();
    const idempotencyKey = request.idempotencyKey ?? null;
    const isRepeatable = request.method === "GET" || idempotencyKey !== null;
    const url = `${baseUrl}${request.path}${queryString(request.query)}`;
    const init = initOf(request, authentication, requestId);

    const attempt = async (facts: CallFacts): Promise<Success<Result> | Failure> => {
      const deadline = startDeadline(timeoutMs, signal);
      try {
        const response = await fetchNow(url, { ...init, signal: deadline.signal });
        if (!response.ok) {
          const error = await readError(response, facts);
          deadline.end();
          return { error, mayRepeat: isRetryable(error, isRepeatable, errorFields) };
        }
        return { response, result: await read({ response, deadline, facts }) };
      } catch (cause) {
        deadline.end();
        signal?.throwIfAborted();
        return {
          error: connectionError(cause, { deadline, facts, timeoutMs }),
          mayRepeat: isRepeatable,
        };
      }
    };

    for (let attempts = 1; ; attempts += 1) {
      signal?.throwIfAborted();
      const outcome = await attempt({ requestId, idempotencyKey, attempts });
      if ("result" in outcome) {
        const { response, result } = outcome;
        onResponse?.({ status: response.status, headers: response.headers });
        return result;
      }
      const { error, mayRepeat } = outcome;
      const retryAfterMs = (error instanceof ImpactApiError ? error.retryAfterMs : null) ?? 0;
      if (!mayRepeat || attempts > maxRetries || retryAfterMs > LONGEST_RETRY_AFTER_MS) {
        throw error;
      }
      await wait(backoffMs(attempts, retryAfterMs), signal);
    }
  };

  return {
    send: async (request, options) => readReply(await run(request, options, readText)),

    stream: async function* stream(request, options) {
      const { signal, timeoutMs = ownTimeoutMs } = options;
      const opened = await run(request, options, (given) => Promise.resolve(given));
      yield* readParts(opened, timeoutMs, signal);
    },
  };
};
