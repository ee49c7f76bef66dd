import { setTimeout as sleep } from "node:timers/promises";
import type { z } from "zod";
import { CharityProviderError } from "../provider.ts";

const ATTEMPTS = 2;
const AGAIN_AFTER_MS = 200;
/** A provider that asks for more patience than this is not waited for: a client waits for us. */
const LONGEST_WAIT_MS = 1000;
/** Far more than a page of charities; a longer answer is no answer. */
const MAXIMUM_BYTES = 4 * 1024 * 1024;

export type JsonRequest<Schema extends z.ZodType> = {
  /** Names the provider in faults. */
  readonly provider: string;
  readonly url: URL;
  readonly headers?: Readonly<Record<string, string>>;
  /** The limit of one attempt, from connecting to the last byte. */
  readonly timeoutMs: number;
  readonly answer: Schema;
  /** Counts an attempt against the provider's limit; throws when that is used up. */
  readonly takePermit?: () => Promise<void>;
};

/** `afterMs` tells how long to wait before the next attempt; null makes the fault final. */
type Attempt<Answer> =
  | { readonly kind: "answer"; readonly answer: Answer | null }
  | {
      readonly kind: "fault";
      readonly error: CharityProviderError;
      readonly afterMs: number | null;
    };

const readText = async (response: Response): Promise<string> => {
  const chunks: Uint8Array[] = [];
  let size = 0;
  for await (const chunk of response.body ?? []) {
    size += chunk.length;
    if (size > MAXIMUM_BYTES) {
      throw new Error(`The answer is longer than ${MAXIMUM_BYTES} bytes.`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString("utf8");
};

const waitAsked = (response: Response): number | null => {
  const seconds = Number(response.headers.get("retry-after") ?? AGAIN_AFTER_MS / 1000);
  const waitMs = Number.isFinite(seconds)
    ? Math.max(seconds * 1000, AGAIN_AFTER_MS)
    : AGAIN_AFTER_MS;
  return waitMs <= LONGEST_WAIT_MS ? waitMs : null;
};

const attemptOnce = async <Schema extends z.ZodType>(
  { provider, url, headers = {}, timeoutMs, answer }: JsonRequest<Schema>,
  signal: AbortSignal,
): Promise<Attempt<z.output<Schema>>> => {
  const fault = (reason: string, afterMs: number | null, cause?: unknown) =>
    ({
      kind: "fault",
      // Not the query: it may hold a key.
      error: new CharityProviderError(`${provider}: ${url.pathname} ${reason}`, { cause }),
      afterMs,
    }) as const;
  let text: string;
  try {
    const response = await fetch(url, {
      headers: { accept: "application/json", ...headers },
      signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
      // Elsewhere our key has no business.
      redirect: "error",
    });
    if (!response.ok) {
      await response.body?.cancel();
      const { status } = response;
      if (status === 404) {
        return { kind: "answer", answer: null };
      }
      const mayPass = status === 429 || status >= 500;
      return fault(`answered ${status}`, mayPass ? waitAsked(response) : null);
    }
    text = await readText(response);
  } catch (error) {
    return fault("cannot be asked", signal.aborted ? null : AGAIN_AFTER_MS, error);
  }
  try {
    const parsed = answer.safeParse(JSON.parse(text));
    return parsed.success
      ? { kind: "answer", answer: parsed.data }
      : fault("answered in a shape that is not known", null, parsed.error);
  } catch (error) {
    return fault("answered what is no JSON", AGAIN_AFTER_MS, error);
  }
};

/**
 * Gets JSON from a provider; what may pass is tried once more.
 * @returns null for a 404
 * @throws CharityProviderError for every other answer that is not as it must be, and for none
 */
export const askJson = async <Schema extends z.ZodType>(
  request: JsonRequest<Schema>,
  signal: AbortSignal,
): Promise<z.output<Schema> | null> => {
  for (let attempt = 1; ; attempt += 1) {
    await request.takePermit?.();
    const result = await attemptOnce(request, signal);
    if (result.kind === "answer") {
      return result.answer;
    }
    if (attempt === ATTEMPTS || result.afterMs === null) {
      throw result.error;
    }
    try {
      await sleep(result.afterMs, undefined, { signal });
    } catch {
      throw result.error;
    }
  }
};
