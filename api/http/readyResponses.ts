import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { DEFAULT_HEADERS } from "../../runtime/server/startServer.ts";
import type { AnswersFromMemory } from "../../runtime/server/startServer.ts";
import type { Listener } from "../../runtime/server/limitConcurrency.ts";
import { runForCaller } from "./shareConnections.ts";
import { logRequest, clientAddress, requestIdOf } from "./observeRequests.ts";
import type { RequestLog } from "./observeRequests.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

/** A response that is in memory: its headers, names and values in turn, and its encoded body. */
export type ReadyResponse = {
  readonly headers: readonly string[];
  readonly body: Buffer;
};

/** A response that is the same for all clients, and the pattern of its route. */
export type PublicResponse = ReadyResponse & { readonly route: string };

/** Returns the response of a request target that is in memory. */
export type FindPublicResponse = (target: string) => PublicResponse | undefined;

/**
 * Returns a caller's response if it is in memory, once the database has confirmed that it is still valid; the promise is
 * for null if it is not.
 * @param parameter the last segment of the request's path
 */
export type ConfirmResponse = (
  parameter: string,
  caller: Caller,
) => Promise<ReadyResponse | null> | null;

type ConfirmedEndpoint = {
  /** Ends with its only parameter. */
  readonly path: string;
  readonly confirm: ConfirmResponse;
};

/** Endpoints for clients with a key. */
export type ConfirmedEndpoints = {
  readonly endpoints: readonly ConfirmedEndpoint[];
  /** Returns the caller whose key is cached and valid, without waiting; otherwise null. */
  readonly findCachedCaller: (headers: IncomingHttpHeaders) => Caller | null;
  /** Their header `Vary`. */
  readonly vary: string;
};

/** Returns complete headers, names and values in turn. */
export const listHeaders = (
  headers: Readonly<Record<string, string>>,
  body: Buffer,
): readonly string[] =>
  Object.entries({
    ...Object.fromEntries(DEFAULT_HEADERS),
    ...headers,
    "Content-Length": String(body.length),
  }).flat();

type Exchange = {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly startedAtMs: number;
  readonly address: string | undefined;
};

const isPlainGet = ({ method, headers }: IncomingMessage): boolean =>
  method === "GET" &&
  headers["if-none-match"] === undefined &&
  headers["if-modified-since"] === undefined;

/** Returns what requests of an endpoint have in common. */
const asRoute = ({ path, confirm }: ConfirmedEndpoint) => ({
  route: path,
  prefix: path.slice(0, path.lastIndexOf("/") + 1),
  /** As the app's, so that both share connections. */
  request: { kind: `get ${path}`, isSlowRead: false },
  confirm,
});

/** Starts to confirm the response to a request; returns null if the app has to respond. */
const startConfirming = (
  { headers, url = "" }: IncomingMessage,
  { prefix, request, route, confirm }: ReturnType<typeof asRoute>,
  findCachedCaller: ConfirmedEndpoints["findCachedCaller"],
) => {
  const caller = url.startsWith(prefix) ? findCachedCaller(headers) : null;
  if (caller === null) {
    return null;
  }
  const confirmation = runForCaller(caller, request, () =>
    confirm(url.slice(prefix.length), caller),
  );
  return confirmation && { confirmation, route, caller };
};

/**
 * Answers requests from memory, before the app: its middleware and routing cost more than such a response. Each request
 * gets an id, a log line and a place in the metrics, like any other. All special cases are left to the app: conditional
 * requests, keys that have to be looked up, and responses that are not confirmed.
 */
export const answerFromMemory = ({
  findPublic = () => undefined,
  confirmed,
  trustedProxies,
  ...log
}: RequestLog & {
  readonly trustedProxies: number;
  readonly findPublic?: FindPublicResponse | undefined;
  readonly confirmed: ConfirmedEndpoints;
}): AnswersFromMemory => {
  const routes = confirmed.endpoints.map(asRoute);

  const send = (
    { request, response, startedAtMs, address }: Exchange,
    { headers, body, route, caller }: PublicResponse & { readonly caller?: Caller },
  ): void => {
    const requestId = requestIdOf(request.headers);
    // The client may have gone while the database confirmed the response.
    if (!response.destroyed) {
      response.writeHead(200, [...headers, "X-Request-Id", requestId]);
      response.end(body);
    }
    logRequest(log, response, {
      requestId,
      method: "GET",
      route,
      startedAtMs,
      caller,
      address,
    });
  };

  const exchangeOf = (request: IncomingMessage, response: ServerResponse): Exchange => ({
    request,
    response,
    startedAtMs: performance.now(),
    address: clientAddress(request, trustedProxies),
  });

  const sendConfirmed = async (
    exchange: Exchange,
    { confirmation, route, caller }: NonNullable<ReturnType<typeof startConfirming>>,
    app: Listener,
  ): Promise<void> => {
    let ready: ReadyResponse | null = null;
    try {
      ready = await confirmation;
    } catch {
      // The app asks the database again, and reports the error.
    }
    if (ready === null) {
      await app(exchange.request, exchange.response);
      return;
    }
    const headers = [...ready.headers, "Vary", confirmed.vary];
    send(exchange, { headers, body: ready.body, route, caller });
  };

  return {
    answer: (request, response) => {
      const ready = isPlainGet(request) ? findPublic(request.url ?? "") : undefined;
      if (ready === undefined) {
        return false;
      }
      send(exchangeOf(request, response), ready);
      return true;
    },
    answerFirst: (app) => (request, response) => {
      if (isPlainGet(request)) {
        // A client that goes while its response is confirmed has no address any more.
        const exchange = exchangeOf(request, response);
        for (const route of routes) {
          const started = startConfirming(request, route, confirmed.findCachedCaller);
          if (started !== null) {
            return sendConfirmed(exchange, started, app);
          }
        }
      }
      return app(request, response);
    },
  };
};
