import { AsyncLocalStorage } from "node:async_hooks";
import { Stripe } from "stripe";
import { createTransport } from "./createTransport.ts";
import type { StripeAccount } from "../deployment.rules.ts";
import { ProcessorMismatchError } from "../processor.ts";

/** The SDK, and a way to abort its calls, for which the SDK has no option. */
export type StripeClient = {
  readonly stripe: Stripe;
  /** Runs `work`. If the signal aborts, the connections of its calls are closed. */
  readonly boundTo: <T>(signal: AbortSignal, work: () => Promise<T>) => Promise<T>;
};

export type StripeClientOptions = {
  /** Read at each call. */
  readonly secretKey: string;
  /** `https://api.stripe.com`, or the URL of a double. No path. */
  readonly apiBase: string;
  /** Limit of one call, from connecting to the last byte of the response. */
  readonly timeoutMs?: number;
};

/**
 * Creates a client that makes each call once; the caller decides about retries.
 * @throws Error if `apiBase` has a path, which the SDK would silently ignore
 */
export const createStripeClient = (options: StripeClientOptions): StripeClient => {
  const { apiBase, timeoutMs = 10_000 } = options;
  const { protocol, hostname, port, pathname } = new URL(apiBase);
  if (pathname !== "/") {
    throw new Error(`The URL of the Stripe API must not have a path: ${apiBase}`);
  }
  const signals = new AsyncLocalStorage<AbortSignal>();
  const secure = protocol === "https:";
  // With an empty key, the SDK asks the authenticator at each call.
  const stripe = new Stripe("", {
    authenticator: (request) => {
      request.headers["Authorization"] = `Bearer ${options.secretKey}`;
      return Promise.resolve();
    },
    maxNetworkRetries: 0,
    timeout: timeoutMs,
    telemetry: false,
    host: hostname,
    port: port || (secure ? 443 : 80),
    protocol: secure ? "https" : "http",
    httpClient: createTransport(() => signals.getStore()),
  });
  return { stripe, boundTo: (signal, work) => signals.run(signal, work) };
};

const LIVE_KEY = /^[rs]k_live_/u;

/** Stripe's refusal of a restricted key names the account that the key belongs to. */
const ACCOUNT_ID = /\bacct_\w+/u;

const readAccountId = async (stripe: Stripe): Promise<string> => {
  try {
    const { id } = await stripe.accounts.retrieveCurrent();
    return id;
  } catch (error) {
    if (!(error instanceof Stripe.errors.StripePermissionError)) {
      throw error;
    }
    const id = ACCOUNT_ID.exec(error.message)?.[0];
    if (id === undefined) {
      throw new ProcessorMismatchError(
        "STRIPE_SECRET_KEY may not read its own Stripe account. Give the restricted key read access to the account.",
        { cause: error },
      );
    }
    return id;
  }
};

export const readStripeAccount = async (
  stripe: Stripe,
  secretKey: string,
): Promise<StripeAccount> => ({
  id: await readAccountId(stripe),
  isLive: LIVE_KEY.test(secretKey),
});
