import { setTimeout as sleep } from "node:timers/promises";
import type { z } from "zod";
import { boundBody } from "../../../runtime/outgoing.ts";
import { CharityProviderError } from "../provider.ts";

/** Starts the time limit of one attempt, from connecting to the last byte. */
export type StartTimeout = () => AbortSignal;

const ATTEMPTS = 2;
const RETRY_DELAY_MS = 200;
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
  readonly title: string;
  readonly schema: Schema;
  readonly startTimeout: StartTimeout;
  /** Counts an attempt against the provider's rate limit; throws if the limit is reached. */
  readonly takePermit: () => Promise<void> | undefined;
};

/** A failure that a retry may not have. */
class TemporaryError extends CharityProviderError {}

const attemptOnce = async <Schema extends z.ZodType>(
  { url, parameters = {}, headers = {} }: JsonRequest,
  { title, schema, startTimeout }: Options<Schema>,
  signal: AbortSignal,
): Promise<z.output<Schema> | null> => {
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
      if (response.status === 404) {
        return null;
      }
      const isTemporary = response.status === 429 || response.status >= 500;
      throw new (isTemporary ? TemporaryError : CharityProviderError)(
        `${title}: status ${response.status}`,
      );
    }
    text = await boundBody(response, MAXIMUM_BYTES).text();
  } catch (cause) {
    throw cause instanceof CharityProviderError
      ? cause
      : new TemporaryError(`${title}: the request failed`, { cause });
  }
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new TemporaryError(`${title}: the response is not JSON`, { cause });
  }
  const { data, error } = schema.safeParse(json);
  if (error) {
    throw new CharityProviderError(`${title}: unexpected response format`, { cause: error });
  }
  return data;
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
    try {
      return await attemptOnce(request, options, signal);
    } catch (error) {
      if (!(error instanceof TemporaryError) || attempt === ATTEMPTS || signal.aborted) {
        throw error;
      }
      await sleep(RETRY_DELAY_MS);
    }
  }
};
