import { AsyncLocalStorage } from "node:async_hooks";
import { Stripe } from "stripe";

/** The SDK, and the way to bind a piece of work to a signal, for which the SDK itself has no option. */
export type StripeClient = {
  readonly stripe: Stripe;
  /** Runs the calls that `work` makes; when the signal aborts, their connections are closed. */
  readonly boundTo: <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;
};

export type StripeClientOptions = {
  readonly secretKey: string;
  /** `https://api.stripe.com`, or the address of a double. No path. */
  readonly apiBase: string;
  /** The limit of one call, from connecting to the last byte of the answer. */
  readonly timeoutMs?: number;
};

/**
 * Takes keys out of a refusal before anything else reads it: Stripe names the ends of a key that it refuses, and what it
 * said ends in logs, in the database and in Temporal's histories, by way of several properties of the SDK's errors.
 */
const withoutKeys = (answer: Response): Response => {
  if (answer.ok) {
    return answer;
  }
  const readText = answer.text.bind(answer);
  return Object.assign(answer, {
    text: async () => (await readText()).replaceAll(/\b[rs]k_[\w*]+/gu, "(key)"),
  });
};

/**
 * A client that makes each call once: whoever asks for the call owns its repetition. The SDK's client over `fetch` is
 * used rather than the one over `node:http` because that one repeats a call after a reset whatever its settings say,
 * starts its time limit afresh with every byte, and cannot be aborted.
 * @throws when `apiBase` has a path: the SDK would silently ignore it.
 */
export const createStripeClient = ({
  secretKey,
  apiBase,
  timeoutMs = 10_000,
}: StripeClientOptions): StripeClient => {
  const { protocol, hostname, port, pathname } = new URL(apiBase);
  if (pathname !== "/") {
    throw new Error(`The address of the Stripe API must not have a path: ${apiBase}`);
  }
  const signals = new AsyncLocalStorage<AbortSignal>();
  const fetchOnce: typeof fetch = async (input, init) => {
    const bound = [init?.signal, signals.getStore()].filter(
      (signal) => signal instanceof AbortSignal,
    );
    // A redirect would send a report of usage to somebody else, or turn it into a read.
    const answer = await fetch(input, {
      ...init,
      signal: AbortSignal.any(bound),
      redirect: "manual",
    });
    return withoutKeys(answer);
  };
  const secure = protocol === "https:";
  const stripe = new Stripe(secretKey, {
    maxNetworkRetries: 0,
    timeout: timeoutMs,
    telemetry: false,
    host: hostname,
    port: port || (secure ? 443 : 80),
    protocol: secure ? "https" : "http",
    httpClient: Stripe.createFetchHttpClient(fetchOnce),
  });
  return { stripe, boundTo: (signal, work) => signals.run(signal, work) };
};
