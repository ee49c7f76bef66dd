import type { ServerResponse } from "node:http";
import type { Middleware } from "koa";
import type { Logger } from "pino";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { PROBES } from "../../runtime/server/limitConcurrency.ts";
import type { ApiState } from "./requestContext.ts";
import { clientAddress } from "./clientAddress.ts";

export type RequestObserver = (
  request: { readonly method: string; readonly route: string; readonly status: number },
  durationSeconds: number,
) => void;

/** Where requests are logged and counted. */
export type RequestLog = {
  readonly logger: Logger;
  readonly observe: RequestObserver;
};

/**
 * Logs a request, successful probes at the level debug, and reports it to the metrics. The log has the route's pattern,
 * the key's id and the client's address, and nothing that the client sent, because paths, queries and bodies may contain
 * keys and personal data.
 */
export const logRequest = (
  { logger, observe }: RequestLog,
  response: Pick<ServerResponse, "destroyed" | "statusCode" | "writableEnded">,
  {
    requestId,
    method,
    route,
    startedAtMs,
    caller,
    address,
  }: {
    readonly requestId: string;
    readonly method: string;
    readonly route: string;
    /** Of `performance.now()`. */
    readonly startedAtMs: number;
    readonly caller: Caller | undefined;
    readonly address: string | undefined;
  },
): void => {
  const durationMs = performance.now() - startedAtMs;
  const status = response.statusCode;
  observe({ method, route, status }, durationMs / 1000);
  // Balancers probe every second or two.
  const level = PROBES.has(route) && status < 500 ? "debug" : "info";
  logger[level](
    {
      requestId,
      method,
      route,
      status,
      durationMs: Math.round(durationMs * 100) / 100,
      accountId: caller?.accountId,
      keyId: caller?.keyId,
      clientAddress: address,
      aborted: response.writableEnded || !response.destroyed ? undefined : true,
    },
    "request",
  );
};

/** Logs each request once, and reports it to the metrics. */
export const observeRequest =
  ({
    trustedProxies,
    ...log
  }: RequestLog & { readonly trustedProxies: number }): Middleware<ApiState> =>
  async (ctx, next) => {
    const startedAtMs = performance.now();
    const { req, res, state } = ctx;
    // A request whose body was not read to its end has no socket any more.
    const address = clientAddress(req, trustedProxies);
    await next();
    const { route = "unknown", requestId, caller } = state;
    logRequest(log, res, {
      requestId,
      method: req.method ?? "",
      route,
      startedAtMs,
      caller,
      address,
    });
  };
