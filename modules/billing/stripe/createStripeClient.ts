import { CALL_TIMEOUT_MS } from "../usage.rules.ts";
import { AsyncLocalStorage } from "node:async_hooks";
import { request as requestHttp } from "node:http";
import type { IncomingMessage, RequestOptions } from "node:http";
import { request as requestHttps } from "node:https";
import { Stripe } from "stripe";
import type { StripeAccount } from "../deployment.rules.ts";
import { ProcessorMismatchError } from "../processor.ts";

type Transport = NonNullable<Stripe.StripeConfig["httpClient"]>;
type TransportResponse = Awaited<ReturnType<Transport["makeRequest"]>>;

/** A page of a hundred objects is smaller by far. */
const MAXIMUM_BYTES = 16 * 1024 * 1024;

/** Returns an error without the code of its cause. After some codes the SDK repeats the call, whatever its settings say. */
const withoutCode = (error: unknown): Error => {
  // If a host has several addresses that all fail, the error has those of the attempts.
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return new Error("The call failed.", { cause });
};

/**
 * The keys in the text of an error response. Stripe quotes parts of a key that it refuses, and several properties of the SDK's
 * errors carry its text into logs, the database and Temporal's histories.
 */
const KEYS = /\b[rs]k_[\w*]+/gu;

/** Makes a call, and reads its response to the end. The other side decides how much it sends, so there is a limit. */
const call = async (open: typeof requestHttp, options: RequestOptions, body: string) => {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = open(options);
    request.on("response", resolve);
    request.on("error", reject);
    // If a server switches the protocol (101), Node closes the connection and reports nothing else.
    request.on("close", () => reject(new Error("the connection was closed before a response")));
    request.end(body);
  });
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > MAXIMUM_BYTES) {
      throw new Error(`The response is longer than ${MAXIMUM_BYTES} bytes.`);
    }
    chunks.push(chunk);
  }
  return { response, text: Buffer.concat(chunks).toString("utf8") };
};

const presentResponse = (
  { statusCode = 0, headers: received }: IncomingMessage,
  text: string,
): TransportResponse => {
  const headers = Object.fromEntries(
    Object.entries(received).flatMap(([name, value]) =>
      value === undefined ? [] : [[name, value]],
    ),
  );
  return {
    getStatusCode: () => statusCode,
    getHeaders: () => headers,
    // The SDK adds what it knows of the response, but not the headers.
    getRawResponse: () => ({ headers }),
    toStream: () => {
      throw new Error("The transport does not stream responses.");
    },
    toJSON: async () => JSON.parse(statusCode < 300 ? text : text.replaceAll(KEYS, "(key)")),
  };
};

/**
 * Creates the SDK's transport: each call is made once, over kept connections, and redirects are not followed. The SDK's
 * own transport over `node:http` repeats calls after a connection reset, restarts its timeout with every byte, and cannot
 * be aborted. The one over `fetch` costs three times the CPU time of a whole call.
 * @param findSignal returns the signal that closes the connection of the call that begins
 */
const createTransport = (findSignal: () => AbortSignal | undefined): Transport => ({
  getClientName: () => "node",
  makeRequest: async (host, port, path, method, headers, body, protocol, timeoutMs) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    const given = findSignal();
    const options = {
      // Node looks up addresses without the brackets of a URL.
      host: host.replaceAll(/[[\]]/gu, ""),
      port,
      path,
      method,
      headers,
      signal: given ? AbortSignal.any([timeout, given]) : timeout,
    };
    try {
      const open = protocol === "https" ? requestHttps : requestHttp;
      const { response, text } = await call(open, options, body);
      return presentResponse(response, text);
    } catch (error) {
      throw timeout.aborted ? Stripe.HttpClient.makeTimeoutError() : withoutCode(error);
    }
  },
});

export type StripeClientOptions = {
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
export const createStripeClient = ({
  secretKey,
  apiBase,
  timeoutMs = CALL_TIMEOUT_MS,
}: StripeClientOptions) => {
  const { protocol, hostname, port, pathname } = new URL(apiBase);
  if (pathname !== "/") {
    throw new Error(`The URL of the Stripe API must not have a path: ${apiBase}`);
  }
  const signals = new AsyncLocalStorage<AbortSignal>();
  const secure = protocol === "https:";
  const stripe = new Stripe(secretKey, {
    maxNetworkRetries: 0,
    timeout: timeoutMs,
    telemetry: false,
    host: hostname,
    port: port || (secure ? 443 : 80),
    protocol: secure ? "https" : "http",
    httpClient: createTransport(() => signals.getStore()),
  });
  return {
    stripe,
    /** Runs `work`. If the signal aborts, the connections of its calls are closed: the SDK has no option for that. */
    boundTo: <Result>(signal: AbortSignal, work: () => Promise<Result>): Promise<Result> =>
      signals.run(signal, work),
  };
};

const LIVE_KEY = /^[rs]k_live_/u;

/** Stripe's refusal of a restricted key names the account that the key belongs to. */
const ACCOUNT_ID = /\bacct_\w+/u;

export const readStripeAccount = async (
  stripe: Stripe,
  secretKey: string,
): Promise<StripeAccount> => {
  const isLive = LIVE_KEY.test(secretKey);
  try {
    const { id } = await stripe.accounts.retrieveCurrent();
    return { id, isLive };
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
    return { id, isLive };
  }
};
