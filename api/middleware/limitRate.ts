import type { Middleware } from "koa";
import type { TakePermit } from "../../db/rateLimits.ts";
import { DomainError } from "../../domain/errors.ts";
import type { ApiState } from "../http/apiContext.ts";

const WINDOW_MS = 1000;

/** Takes so many requests of each key within any second; more are refused before anything is done for them. */
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
      throw new TypeError(`${endpoint} has a limit and nobody who counts, or no key to count by.`);
    }
    const limit = { requests: requestsPerSecond, windowMs: WINDOW_MS };
    if (!(await takePermit(`${caller.keyId} ${endpoint}`, limit))) {
      throw new DomainError("rate_limited", "rate limit exceeded");
    }
    await next();
  };
