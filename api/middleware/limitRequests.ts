import type { Middleware } from "koa";
import { DomainError } from "../../domain/errors.ts";
import type { RequestLimiter } from "../../services/accounts/createRequestLimiter.ts";
import { callerOf } from "../http/apiContext.ts";
import type { ApiState } from "../http/apiContext.ts";

/** Rejects requests beyond the limits of their key and account, and reports the limits in the RateLimit headers. */
export const limitRequests =
  (limiter: RequestLimiter): Middleware<ApiState> =>
  async (ctx, next) => {
    const admission = limiter.enter(callerOf(ctx));
    ctx.res.setHeader("RateLimit-Policy", admission.policy);
    ctx.res.setHeader("RateLimit", admission.state);
    if (admission.kind === "rejected") {
      throw new DomainError("rate_limited", admission.message);
    }
    try {
      await next();
    } finally {
      admission.leave();
    }
  };
