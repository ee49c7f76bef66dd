import { isIP } from "node:net";
import { Client } from "undici";
import type { AttemptResult } from "./decideDelivery.rules.ts";
import { parseRetryAfter } from "./decideDelivery.rules.ts";
import type { WebhookSettings } from "./webhooks.rules.ts";
import { isAllowedAddress } from "./allowedAddresses.ts";
import { lookUpWith, resolveAddresses } from "../../runtime/resolveAddresses.ts";
import type { Resolve } from "../../runtime/resolveAddresses.ts";

/** For the whole exchange. Receivers should respond first and work afterwards. */
const TIMEOUT_MS = 15_000;

/** What is read and stored of a response's body. */
const RESPONSE_BYTES = 1024;

type WebhookRequest = {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

/**
 * Sends a request.
 * @throws the signal's reason if it is aborted
 */
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

/** Reads the beginning of a body. If it breaks off, the status counts all the same. */
const readBeginning = async (body: AsyncIterable<Buffer>): Promise<string> => {
  let beginning = Buffer.alloc(0);
  try {
    for await (const chunk of body) {
      beginning = Buffer.concat([beginning, chunk]);
      if (beginning.length >= RESPONSE_BYTES) {
        break;
      }
    }
  } catch {
    // The connection was lost or took too long.
  }
  return beginning.subarray(0, RESPONSE_BYTES).toString("utf8").replaceAll("\0", "\uFFFD");
};

const errorOfStatus = (status: number): string | null => {
  if (status >= 200 && status < 300) {
    return null;
  }
  return status >= 300 && status < 400
    ? `status ${status}; redirects are not followed`
    : `status ${status}`;
};

const MESSAGES: Readonly<Record<string, string>> = {
  ECONNREFUSED: "the connection was refused",
  ECONNRESET: "the connection was closed before a response",
  UND_ERR_SOCKET: "the connection was closed before a response",
  UND_ERR_CONNECT_TIMEOUT: "the host cannot be reached",
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
  const code = first instanceof Error && "code" in first ? String(first.code) : "";
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
  /** Resolves a host once, and returns only the addresses that may be called: the connection is made to one of these. */
  const lookup = lookUpWith(async (hostname) => {
    const addresses = await resolve(hostname);
    const allowed = addresses.filter((address) => isAllowedAddress(address, allowedNetworks));
    if (allowed.length === 0) {
      throw new NoResponseError(
        addresses.length === 0 ? "the host name cannot be resolved" : ADDRESS_NOT_ALLOWED,
      );
    }
    return allowed;
  });

  /** @throws NoResponseError if the URL must not be called */
  const parseUrl = (given: string): URL => {
    const url = new URL(given);
    // No look-up is made of an address.
    const address = url.hostname.replaceAll(/[[\]]/gu, "");
    if (isIP(address) !== 0 && !isAllowedAddress(address, allowedNetworks)) {
      throw new NoResponseError(ADDRESS_NOT_ALLOWED);
    }
    // The endpoint may have been created when WEBHOOK_ALLOW_HTTP was on.
    if (url.protocol !== "https:" && !allowsHttp) {
      throw new NoResponseError("the URL must begin with https://");
    }
    return url;
  };

  const exchange = async (
    { url: given, headers, body }: WebhookRequest,
    signal: AbortSignal,
  ): Promise<AttemptResult> => {
    const { origin, pathname, search } = parseUrl(given);
    // Connections are not kept: a receiver may close one at the moment of the next request.
    const client = new Client(origin, { connect: { lookup, ...(ca === undefined ? {} : { ca }) } });
    try {
      const path = `${pathname}${search}`;
      const response = await client.request({ method: "POST", path, headers, body, signal });
      const retryAfter = response.headers["retry-after"];
      return {
        status: response.statusCode,
        error: errorOfStatus(response.statusCode),
        response: await readBeginning(response.body),
        retryAfterMs: parseRetryAfter([retryAfter].flat()[0], new Date()),
      };
    } finally {
      await client.destroy();
    }
  };

  return async (request, signal) => {
    const timeout = AbortSignal.timeout(timeoutMs);
    try {
      return await exchange(request, AbortSignal.any([signal, timeout]));
    } catch (error) {
      signal.throwIfAborted();
      return {
        status: null,
        error: timeout.aborted
          ? `no response within ${timeoutMs / 1000} seconds`
          : describeFailure(error),
        response: null,
        retryAfterMs: null,
      };
    }
  };
};
