import type { Middleware } from "koa";
import type { TakePermit } from "../../db/rateLimits.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { callerOf } from "./requestContext.ts";
import type { ApiState } from "./requestContext.ts";

const WINDOW_MS = 1000;

/** Limits how many requests of one key an endpoint accepts in any second; a rejected request has no effect. */
export const limitRate =
  ({
    takePermit,
    endpoint,
    requestsPerSecond,
  }: {
    readonly takePermit: TakePermit;
    readonly endpoint: string;
    readonly requestsPerSecond: number;
  }): Middleware<ApiState> =>
  async (ctx, next) => {
    const limit = { requests: requestsPerSecond, windowMs: WINDOW_MS };
    if (!(await takePermit(`${callerOf(ctx).keyId} ${endpoint}`, limit))) {
      throw new DomainError("rate_limited", "rate limit exceeded");
    }
    await next();
  };
