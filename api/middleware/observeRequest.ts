import type { Middleware } from "koa";
import type { Logger } from "pino";
import type { ApiState } from "../http/apiContext.ts";

/** One request that was answered, for the metrics. */
export type RequestObserver = (
  request: { readonly method: string; readonly route: string; readonly status: number },
  durationSeconds: number,
) => void;

/**
 * Tells the log and the metrics of each request once. The route's pattern stands for the path, and nothing that the
 * client wrote is logged: paths, queries and bodies may hold keys and personal data.
 */
export const observeRequest =
  ({
    logger,
    observe,
  }: {
    readonly logger: Logger;
    readonly observe: RequestObserver;
  }): Middleware<ApiState> =>
  async (ctx, next) => {
    const start = performance.now();
    await next();
    const durationMs = performance.now() - start;
    const { method, status } = ctx;
    const { route = "unknown", requestId, caller } = ctx.state;
    observe({ method, route, status }, durationMs / 1000);
    logger.info(
      {
        requestId,
        method,
        route,
        status,
        durationMs: Math.round(durationMs * 100) / 100,
        accountId: caller?.accountId,
        aborted: ctx.res.writableEnded || !ctx.res.destroyed ? undefined : true,
      },
      "request",
    );
  };
