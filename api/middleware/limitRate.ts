import type { Middleware } from "koa";
import type { TakePermit } from "../../db/rateLimits.ts";
import { DomainError } from "../../domain/errors.ts";
import type { ApiState } from "../http/apiContext.ts";

const WINDOW_MS = 1000;

/** Limits how many requests of one key an endpoint accepts in any second; a rejected request has no effect. */
export const limitRate =
  ({
    takePermit,
    endpoint,
    requestsPerSecond,
  }: {
    readonly takePermit: TakePermit | undefined;
    readonly endpoint: string;
    readonly requestsPerSecond: number;
  }): Middleware<ApiState> =>
  async (ctx, next) => {
    const { caller } = ctx.state;
    if (takePermit === undefined || caller === undefined) {
      throw new TypeError(`${endpoint} has a rate limit, but the app has no limiter or no caller.`);
    }
    const limit = { requests: requestsPerSecond, windowMs: WINDOW_MS };
    if (!(await takePermit(`${caller.keyId} ${endpoint}`, limit))) {
      throw new DomainError("rate_limited", "rate limit exceeded");
    }
    await next();
  };
