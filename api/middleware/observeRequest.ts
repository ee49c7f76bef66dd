import type { Middleware } from "koa";
import type { Logger } from "pino";
import { PROBES } from "../../program/limitConcurrency.ts";
import type { ApiState } from "../http/apiContext.ts";
import { clientAddress } from "../http/clientAddress.ts";

export type RequestObserver = (
  request: { readonly method: string; readonly route: string; readonly status: number },
  durationSeconds: number,
) => void;

/**
 * Logs each request once, successful probes at the level debug, and reports it to the metrics. The log has the route's
 * pattern, the key's id and the client's address, and nothing that the client sent, because paths, queries and bodies may
 * contain keys and personal data.
 */
export const observeRequest =
  ({
    logger,
    observe,
    trustedProxies,
  }: {
    readonly logger: Logger;
    readonly observe: RequestObserver;
    readonly trustedProxies: number;
  }): Middleware<ApiState> =>
  async (ctx, next) => {
    const start = performance.now();
    // A request whose body was not read to its end has no socket any more.
    const address = clientAddress(ctx.req, trustedProxies);
    await next();
    const durationMs = performance.now() - start;
    const { method, status } = ctx;
    const { route = "unknown", requestId, caller } = ctx.state;
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
        aborted: ctx.res.writableEnded || !ctx.res.destroyed ? undefined : true,
      },
      "request",
    );
  };
