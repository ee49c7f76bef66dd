import type { IncomingMessage } from "node:http";
import type { Middleware } from "koa";
import type { Logger } from "pino";
import { PROBES } from "../../runtime/server/openDoor.ts";
import type { ApiState } from "./requestContext.ts";
import { randomUUID } from "node:crypto";
import { continueTrace, inSpan } from "../../runtime/tracing.ts";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";

const REQUEST_ID = /^[\u0021-\u007E]{1,128}$/u;

/** Returns the client's own id of a request if it is well-formed, or a new one. */
const requestIdOf = ({ headers }: IncomingMessage): string => {
  const given = headers["x-request-id"];
  return typeof given === "string" && REQUEST_ID.test(given) ? given : randomUUID();
};

/** Longer than any IP address; what a client invents is not logged at length. */
const MAXIMUM_ADDRESS_LENGTH = 45;
const MAXIMUM_FORWARDED_LENGTH = 2000;

/**
 * Returns the address of a request's client. Each trusted proxy appends the address that it saw to `X-Forwarded-For`; what
 * is further left is the client's own claim.
 * @param trustedProxies how many proxies of our own a request has passed; with 0 the header is ignored
 */
export const clientAddress = (
  { headers, socket }: Pick<IncomingMessage, "headers" | "socket">,
  trustedProxies: number,
): string | undefined => {
  const header = headers["x-forwarded-for"];
  if (trustedProxies === 0 || typeof header !== "string") {
    return socket.remoteAddress;
  }
  const forwarded = header.slice(-MAXIMUM_FORWARDED_LENGTH).split(",");
  const address = (forwarded.at(-trustedProxies) ?? "").trim();
  return address === "" ? socket.remoteAddress : address.slice(0, MAXIMUM_ADDRESS_LENGTH);
};

export type RequestObserver = (
  request: { readonly method: string; readonly route: string; readonly status: number },
  durationSeconds: number,
) => void;

/**
 * Gives each request an id, which its response has in `X-Request-Id`, logs it once, successful probes at the level debug and
 * requests that something else's outage rejects at the level error, and reports it to the metrics. The log has the route's
 * pattern, the key's id and the client's address, and nothing that the client sent, because paths, queries and bodies may
 * contain keys and personal data.
 */
export const observeRequest =
  (logger: Logger, observe: RequestObserver, trustedProxies: number): Middleware<ApiState> =>
  async (ctx, next) => {
    const startedAtMs = performance.now();
    const { req, res, state } = ctx;
    const requestId = requestIdOf(req);
    state.requestId = requestId;
    res.setHeader("X-Request-Id", requestId);
    // A request whose body was not read to its end has no socket any more.
    const address = clientAddress(req, trustedProxies);
    await next();
    const durationMs = performance.now() - startedAtMs;
    const { route = "unknown", caller, reason } = state;
    const { method = "" } = req;
    const status = res.statusCode;
    observe({ method, route, status }, durationMs / 1000);
    // Balancers probe every second or two.
    const success = PROBES.has(route) && status < 500 ? "debug" : "info";
    logger[reason === undefined ? success : "error"](
      {
        requestId,
        method,
        route,
        status,
        reason,
        durationMs: Math.round(durationMs * 100) / 100,
        accountId: caller?.accountId,
        keyId: caller?.keyId,
        clientAddress: address,
        aborted: res.writableEnded || !res.destroyed ? undefined : true,
      },
      "request",
    );
  };

/** Records a span for each request, in the trace that `traceparent` names: like the log, without what the client sent. */
export const traceRequest: Middleware<ApiState> = (ctx, next) => {
  const { method } = ctx;
  const { traceparent } = ctx.req.headers;
  return inSpan(
    method,
    {
      kind: SpanKind.SERVER,
      parent: continueTrace(typeof traceparent === "string" ? traceparent : undefined),
      attributes: { "http.request.method": method },
    },
    async (span) => {
      await next();
      const { route, caller } = ctx.state;
      if (route !== undefined) {
        span.updateName(`${method} ${route}`);
        span.setAttribute("http.route", route);
      }
      span.setAttribute("http.response.status_code", ctx.status);
      if (caller !== undefined) {
        span.setAttribute("impact.account.id", caller.accountId);
      }
      if (ctx.status >= 500) {
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
    },
  );
};
