import { request as requestHttp, Agent as HttpAgent } from "node:http";
import type { IncomingMessage } from "node:http";
import { request as requestHttps, Agent as HttpsAgent } from "node:https";
import type { LookupAddress } from "node:dns";
import { isIP } from "node:net";
import type { LookupFunction } from "node:net";
import { callbackify } from "node:util";
import type { AttemptResult } from "./decideDelivery.rules.ts";
import { parseRetryAfter } from "./decideDelivery.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { isAllowedAddress } from "./allowedAddresses.ts";
import { codeOf } from "../../runtime/errors.rules.ts";
import { resolveAddresses } from "../../runtime/resolveAddresses.ts";
import type { Resolve } from "../../runtime/resolveAddresses.ts";

/** For the whole exchange. Receivers should respond first and work afterwards. */
const TIMEOUT_MS = 15_000;

type WebhookRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/** @throws the signal's reason if it is aborted */
export type SendWebhook = (request: WebhookRequest, signal: AbortSignal) => Promise<AttemptResult>;

type Options = WebhookSettings & {
  readonly resolve?: Resolve;
  readonly timeoutMs?: number;
  /** A certificate authority to trust instead of those of Node. */
  readonly ca?: string;
};

/** Why no response can arrive. Receivers see the message. */
class NoResponseError extends Error {
  override readonly name = "NoResponseError";
}

const ADDRESS_NOT_ALLOWED = "the host has no public address";
const CONNECTION_CLOSED = "the connection was closed before a response";

/** Resolves a host once, and returns only the addresses that may be called: the connection is made to one of these. */
const createLookup = (
  resolve: Resolve,
  allowedNetworks: WebhookSettings["allowedNetworks"],
): LookupFunction => {
  const lookUp = async (hostname: string): Promise<LookupAddress[]> => {
    const addresses = await resolve(hostname);
    const allowed = addresses.filter((address) => isAllowedAddress(address, allowedNetworks));
    if (allowed.length === 0) {
      throw new NoResponseError(
        addresses.length === 0 ? "the host name cannot be resolved" : ADDRESS_NOT_ALLOWED,
      );
    }
    return allowed.map((address) => ({ address, family: isIP(address) }));
  };
  return (hostname, { all }, callback) =>
    callbackify(lookUp)(hostname, (error, addresses) => {
      // Node asks for one address where NODE_OPTIONS has --no-network-family-autoselection.
      if (error || all) {
        callback(error, addresses);
      } else {
        callback(null, addresses[0]?.address ?? "", addresses[0]?.family);
      }
    });
};

const errorOfStatus = (status: number): string | null => {
  if (status >= 200 && status < 300) {
    return null;
  }
  const isRedirect = status >= 300 && status < 400;
  return `status ${status}${isRedirect ? "; redirects are not followed" : ""}`;
};

const MESSAGES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: CONNECTION_CLOSED,
  EHOSTUNREACH: "the host cannot be reached",
  ENETUNREACH: "the host cannot be reached",
  ETIMEDOUT: "the host cannot be reached",
};

/** Returns why no response arrived. Receivers see it, so it names none of our addresses. */
const describeFailure = (error: unknown): string => {
  if (error instanceof NoResponseError) {
    return error.message;
  }
  // If a host has several addresses that all fail, the error has those of the attempts.
  const first: unknown = error instanceof AggregateError ? error.errors[0] : error;
  const code = codeOf(first);
  return MESSAGES[code] ?? `the request failed: ${code === "" ? String(first) : code}`;
};

/**
 * Creates what sends deliveries. It connects only to public addresses and those that the operator allows. The check is of
 * the address that is dialled, so a host name cannot lead elsewhere between the check and the connection. Settings of
 * proxies in the environment have no effect, because a proxy would resolve the name again.
 */
export const createWebhookSender = ({
  allowedNetworks,
  allowsHttp,
  resolve = resolveAddresses,
  timeoutMs = TIMEOUT_MS,
  ca,
}: Options): SendWebhook => {
  const lookup = createLookup(resolve, allowedNetworks);
  // Connections are not kept: a receiver may close one at the moment of the next request.
  const http = { request: requestHttp, agent: new HttpAgent() };
  const https = { request: requestHttps, agent: new HttpsAgent(ca === undefined ? {} : { ca }) };

  const open = ({ url, headers, body }: WebhookRequest, signal: AbortSignal) =>
    new Promise<IncomingMessage>((resolveResponse, reject) => {
      const { protocol, hostname } = new URL(url);
      // Node does not look up an address.
      const address = hostname.replaceAll(/[[\]]/gu, "");
      if (isIP(address) !== 0 && !isAllowedAddress(address, allowedNetworks)) {
        throw new NoResponseError(ADDRESS_NOT_ALLOWED);
      }
      // The endpoint may have been created when WEBHOOK_ALLOW_HTTP was on.
      if (protocol !== "https:" && !allowsHttp) {
        throw new NoResponseError("the URL must begin with https://");
      }
      const client = protocol === "https:" ? https : http;
      const request = client.request(url, {
        method: "POST",
        headers: { ...headers, "content-length": String(Buffer.byteLength(body)) },
        agent: client.agent,
        lookup,
        signal,
      });
      request.on("response", resolveResponse);
      request.on("error", reject);
      // If a server switches the protocol (101), Node closes the connection and reports nothing else.
      request.on("close", () => reject(new NoResponseError(CONNECTION_CLOSED)));
      request.end(body);
    });

  return async (request, signal) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      const response = await open(request, AbortSignal.any([signal, timeout]));
      // The status counts, whatever the body is.
      response.on("error", () => undefined).destroy();
      const status = response.statusCode ?? 0;
      return {
        status,
        error: errorOfStatus(status),
        retryAfterMs: parseRetryAfter(response.headers["retry-after"], new Date()),
      };
    } catch (error) {
      signal.throwIfAborted();
      return {
        status: null,
        error: timeout.aborted
          ? `no response within ${timeoutMs / 1000} seconds`
          : describeFailure(error),
        retryAfterMs: null,
      };
    }
  };
};
