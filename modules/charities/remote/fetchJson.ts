import { setTimeout as sleep } from "node:timers/promises";
import type { z } from "zod";
import { boundBody } from "../../../runtime/outgoing.ts";
import { CharityProviderError } from "../provider.ts";

/** Starts the time limit of one attempt, from connecting to the last byte. */
export type StartTimeout = () => AbortSignal;

const ATTEMPTS = 2;
const RETRY_DELAY_MS = 200;
/** A `Retry-After` beyond this ends the attempts, because a client is waiting. */
const MAXIMUM_RETRY_DELAY_MS = 1000;
/** Far more than a page of charities needs. */
const MAXIMUM_BYTES = 4 * 1024 * 1024;

/** What errors name a call by, because they are logged, and URLs may hold a key or what a client searches for. */
export type CallName = "details" | "search";

export type JsonRequest = {
  readonly url: string;
  readonly parameters?: Readonly<Record<string, string>>;
  readonly headers?: Readonly<Record<string, string>>;
};

type Options<Schema extends z.ZodType> = {
  /** The provider and the call, in error messages. */
  readonly title: string;
  readonly schema: Schema;
  readonly startTimeout: StartTimeout;
  /** Counts an attempt against the provider's rate limit; throws if the limit is reached. */
  readonly takePermit: () => Promise<void>;
};

/** A failed attempt, and the delay before a retry; null if a retry would not help. */
type Failure = { readonly error: CharityProviderError; readonly retryAfterMs: number | null };

const retryDelayOf = (response: Response): number | null => {
  if (response.status !== 429 && response.status < 500) {
    return null;
  }
  const seconds = Number(response.headers.get("retry-after") ?? 0);
  const delayMs = Math.max(Number.isFinite(seconds) ? seconds * 1000 : 0, RETRY_DELAY_MS);
  return delayMs <= MAXIMUM_RETRY_DELAY_MS ? delayMs : null;
};

const attemptOnce = async <Schema extends z.ZodType>(
  { url, parameters = {}, headers = {} }: JsonRequest,
  { title, schema, startTimeout }: Options<Schema>,
  signal: AbortSignal,
): Promise<{ readonly value: z.output<Schema> | null } | Failure> => {
  const failure = (problem: string, retryAfterMs: number | null, cause?: unknown): Failure => ({
    error: new CharityProviderError(`${title}: ${problem}`, { cause }),
    retryAfterMs,
  });
  const target = new URL(url);
  target.search = new URLSearchParams(parameters).toString();
  let text: string;
  try {
    const response = await fetch(target, {
      headers: { accept: "application/json", ...headers },
      signal: AbortSignal.any([signal, startTimeout()]),
      // A redirect could send our key to another host.
      redirect: "error",
    });
    if (!response.ok) {
      await response.body?.cancel();
      return response.status === 404
        ? { value: null }
        : failure(`status ${response.status}`, retryDelayOf(response));
    }
    text = await boundBody(response, MAXIMUM_BYTES).text();
  } catch (error) {
    return failure("the request failed", signal.aborted ? null : RETRY_DELAY_MS, error);
  }
  try {
    const parsed = schema.safeParse(JSON.parse(text));
    return parsed.success
      ? { value: parsed.data }
      : failure("unexpected response format", null, parsed.error);
  } catch (error) {
    return failure("the response is not JSON", RETRY_DELAY_MS, error);
  }
};

/**
 * Fetches JSON from a provider and retries a temporary failure once.
 * @returns null for a 404
 * @throws CharityProviderError for every other failure
 */
export const fetchJson = async <Schema extends z.ZodType>(
  request: JsonRequest,
  options: Options<Schema>,
  signal: AbortSignal,
): Promise<z.output<Schema> | null> => {
  for (let attempt = 1; ; attempt += 1) {
    await options.takePermit();
    const result = await attemptOnce(request, options, signal);
    if ("value" in result) {
      return result.value;
    }
    if (attempt === ATTEMPTS || result.retryAfterMs === null) {
      throw result.error;
    }
    try {
      await sleep(result.retryAfterMs, undefined, { signal });
    } catch {
      throw result.error;
    }
  }
};
