import { AsyncLocalStorage } from "node:async_hooks";
import { Stripe } from "stripe";
import { boundBody } from "../../boundBody.ts";

/** A page of a hundred objects is smaller by far. */
const MAXIMUM_BYTES = 16 * 1024 * 1024;

/** The SDK, and a way to abort its calls, for which the SDK has no option. */
export type StripeClient = {
  readonly stripe: Stripe;
  /** Runs `work`. If the signal aborts, the connections of its calls are closed. */
  readonly boundTo: <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;
};

export type StripeClientOptions = {
  readonly secretKey: string;
  /** `https://api.stripe.com`, or the URL of a double. No path. */
  readonly apiBase: string;
  /** Limit of one call, from connecting to the last byte of the response. */
  readonly timeoutMs?: number;
};

/**
 * Removes keys from the text of an error response. Stripe quotes parts of a key that it refuses, and several properties
 * of the SDK's errors carry its text into logs, the database and Temporal's histories.
 */
const redactKeys = (response: Response): Response => {
  if (response.ok) {
    return response;
  }
  const readText = response.text.bind(response);
  return Object.assign(response, {
    text: async () => (await readText()).replaceAll(/\b[rs]k_[\w*]+/gu, "(key)"),
  });
};

/**
 * Creates a client that makes each call once; the caller decides about retries. It uses the SDK's `fetch` transport: the
 * one over `node:http` retries after a connection reset whatever its settings say, restarts its timeout with every byte,
 * and cannot be aborted.
 * @throws Error if `apiBase` has a path, which the SDK would silently ignore
 */
export const createStripeClient = ({
  secretKey,
  apiBase,
  timeoutMs = 10_000,
}: StripeClientOptions): StripeClient => {
  const { protocol, hostname, port, pathname } = new URL(apiBase);
  if (pathname !== "/") {
    throw new Error(`The URL of the Stripe API must not have a path: ${apiBase}`);
  }
  const signals = new AsyncLocalStorage<AbortSignal>();
  const fetchOnce: typeof fetch = async (input, init) => {
    const bound = [init?.signal, signals.getStore()].filter(
      (signal) => signal instanceof AbortSignal,
    );
    // A redirect would send usage to another server, or turn the POST into a GET.
    const response = await fetch(input, {
      ...init,
      signal: AbortSignal.any(bound),
      redirect: "manual",
    });
    return redactKeys(boundBody(response, MAXIMUM_BYTES));
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
