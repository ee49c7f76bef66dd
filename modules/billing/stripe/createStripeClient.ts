import { AsyncLocalStorage } from "node:async_hooks";
import { request as requestHttp } from "node:http";
import type { IncomingMessage } from "node:http";
import { request as requestHttps } from "node:https";
import { Stripe } from "stripe";
import type { StripeAccount } from "../deployment.rules.ts";
import { ProcessorMismatchError } from "../processor.ts";

type Transport = NonNullable<Stripe.StripeConfig["httpClient"]>;
type TransportResponse = Awaited<ReturnType<Transport["makeRequest"]>>;

/** A page of a hundred objects is smaller by far. */
const MAXIMUM_BYTES = 16 * 1024 * 1024;

/**
 * Returns an error without the code of its cause. After the codes of a closed connection the SDK repeats the call,
 * whatever its settings say.
 */
const withoutCode = (error: unknown): Error => {
  // If a host has several addresses that all fail, the error has those of the attempts.
  const cause: unknown = error instanceof AggregateError ? error.errors[0] : error;
  return new Error("The call failed.", { cause });
};

/**
 * Removes keys from the text of an error response. Stripe quotes parts of a key that it refuses, and several properties
 * of the SDK's errors carry its text into logs, the database and Temporal's histories.
 */
const redactKeys = (text: string): string => text.replaceAll(/\b[rs]k_[\w*]+/gu, "(key)");

/** Reads a body to its end. The other side decides how much it sends, so there is a limit. */
const readBody = (response: IncomingMessage): Promise<string> =>
  new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    response.on("data", (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > MAXIMUM_BYTES) {
        response.destroy(new Error(`The response is longer than ${MAXIMUM_BYTES} bytes.`));
        return;
      }
      chunks.push(chunk);
    });
    response.on("error", reject);
    response.on("end", () => resolve(Buffer.concat(chunks).toString("utf8")));
    response.on("close", () => reject(new Error("The response was cut off.")));
  });

const presentResponse = (response: IncomingMessage, body: Promise<string>): TransportResponse => {
  const { statusCode = 0 } = response;
  const headers = Object.fromEntries(
    Object.entries(response.headers).flatMap(([name, value]) =>
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
    toJSON: async () => {
      const text = await body.catch((error: unknown) => {
        throw Stripe.HttpClient.makeResponseBodyError(error);
      });
      return JSON.parse(statusCode < 300 ? text : redactKeys(text));
    },
  };
};

/**
 * Creates the SDK's transport: each call is made once, over kept connections, and redirects are not followed. The SDK's
 * own transport over `node:http` repeats calls after a connection reset, restarts its timeout with every byte, and cannot
 * be aborted. The one over `fetch` costs more than twice the CPU time of a whole call.
 * @param findSignal returns the signal that closes the connection of the call that begins
 */
const createTransport = (findSignal: () => AbortSignal | undefined): Transport => ({
  getClientName: () => "node",
  makeRequest: (host, port, path, method, headers, body, protocol, timeoutMs) =>
    new Promise((resolve, reject) => {
      const signal = findSignal();
      const open = protocol === "https" ? requestHttps : requestHttp;
      const request = open({
        // Node looks up addresses without the brackets of a URL.
        host: host.replaceAll(/[[\]]/gu, ""),
        port,
        path,
        method,
        headers,
      });
      let stoppedBy: Error | null = null;
      const stop = (reason: Error): void => {
        stoppedBy ??= reason;
        request.destroy();
      };
      const onAbort = (): void => stop(withoutCode(signal?.reason));
      const timeout = setTimeout(() => stop(Stripe.HttpClient.makeTimeoutError()), timeoutMs);
      signal?.addEventListener("abort", onAbort);
      request.on("close", () => {
        clearTimeout(timeout);
        signal?.removeEventListener("abort", onAbort);
        // If a server switches the protocol (101), Node closes the connection and reports nothing else.
        reject(stoppedBy ?? new Error("the connection was closed before a response"));
      });
      request.on("error", (error) => reject(stoppedBy ?? withoutCode(error)));
      request.on("response", (response) => {
        const received = readBody(response).catch((error: unknown) => {
          throw stoppedBy ?? error;
        });
        // The SDK may discard a response without reading it.
        received.catch(() => undefined);
        resolve(presentResponse(response, received));
      });
      if (signal?.aborted) {
        onAbort();
      }
      request.end(body);
    }),
});

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
 * Creates a client that makes each call once; the caller decides about retries.
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
