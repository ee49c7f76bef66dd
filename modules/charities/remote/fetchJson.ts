import { setTimeout as sleep } from "node:timers/promises";
import type { z } from "zod";
import { boundBody } from "../../../runtime/outgoing.ts";
import { CharityProviderError } from "../provider.ts";
import type { UnusableHits } from "./readHits.ts";

/** Starts the time limit of one attempt, from connecting to the last byte. */
export type StartTimeout = () => AbortSignal;

/** How to reach a remote provider. */
export type RemoteSettings<Credentials> = Credentials & {
  /** Base URL, without a trailing slash. */
  readonly apiBase: string;
  readonly startTimeout: StartTimeout;
  /** Called after each search whose response has records that cannot be used. */
  readonly onUnusable: (unusable: UnusableHits) => void;
};

const ATTEMPTS = 2;
const RETRY_DELAY_MS = 200;
/** A `Retry-After` beyond this ends the attempts, because a client is waiting. */
const MAXIMUM_RETRY_DELAY_MS = 1000;
/** Far more than a page of charities needs. */
const MAXIMUM_BYTES = 4 * 1024 * 1024;

type JsonRequest<Schema extends z.ZodType> = {
  /** The provider's name in error messages. */
  readonly provider: string;
  /** The call's name in error messages, which are logged: URLs may hold a key or what a client searches for. */
  readonly call: "details" | "search";
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  readonly startTimeout: StartTimeout;
  readonly schema: Schema;
  /** Counts an attempt against the provider's rate limit; throws if the limit is reached. */
  readonly takePermit?: () => Promise<void>;
};

type Attempt<Value> =
  | { readonly kind: "success"; readonly value: Value | null }
  | {
      readonly kind: "failure";
      readonly error: CharityProviderError;
      /** The delay before a retry; null if a retry would not help. */
      readonly retryAfterMs: number | null;
    };

const retryDelayOf = (response: Response): number | null => {
  const seconds = Number(response.headers.get("retry-after") ?? 0);
  const delayMs = Number.isFinite(seconds)
    ? Math.max(seconds * 1000, RETRY_DELAY_MS)
    : RETRY_DELAY_MS;
  return delayMs <= MAXIMUM_RETRY_DELAY_MS ? delayMs : null;
};

const attemptOnce = async <Schema extends z.ZodType>(
  { provider, call, url, headers = {}, startTimeout, schema }: JsonRequest<Schema>,
  signal: AbortSignal,
): Promise<Attempt<z.output<Schema>>> => {
  const failure = (problem: string, retryAfterMs: number | null, cause?: unknown) =>
    ({
      kind: "failure",
      error: new CharityProviderError(`${provider}: ${call}: ${problem}`, { cause }),
      retryAfterMs,
    }) as const;
  let text: string;
  try {
    const response = await fetch(url, {
      headers: { accept: "application/json", ...headers },
      signal: AbortSignal.any([signal, startTimeout()]),
      // A redirect could send our key to another host.
      redirect: "error",
    });
    if (!response.ok) {
      await response.body?.cancel();
      const { status } = response;
      if (status === 404) {
        return { kind: "success", value: null };
      }
      const mayRecover = status === 429 || status >= 500;
      return failure(`status ${status}`, mayRecover ? retryDelayOf(response) : null);
    }
    text = await boundBody(response, MAXIMUM_BYTES).text();
  } catch (error) {
    return failure("the request failed", signal.aborted ? null : RETRY_DELAY_MS, error);
  }
  try {
    const parsed = schema.safeParse(JSON.parse(text));
    return parsed.success
      ? { kind: "success", value: parsed.data }
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
  request: JsonRequest<Schema>,
  signal: AbortSignal,
): Promise<z.output<Schema> | null> => {
  for (let attempt = 1; ; attempt += 1) {
    await request.takePermit?.();
    const result = await attemptOnce(request, signal);
    if (result.kind === "success") {
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

/** Whether an id can be a path segment without changing the path. */
export const isPathSafe = (id: string): boolean => /^[\w~-][\w.~-]{0,199}$/u.test(id);
