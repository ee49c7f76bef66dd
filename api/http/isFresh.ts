import type { ApiContext } from "./apiContext.ts";

/**
 * Returns whether the client has the response whose ETag is set. Koa compares copies of all headers, so requests without
 * the condition are sorted out before.
 */
export const isFresh = (ctx: ApiContext): boolean =>
  ctx.req.headers["if-none-match"] !== undefined && ctx.fresh;
