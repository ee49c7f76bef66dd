import type { RequestContext } from "./requestContext.ts";

/**
 * Returns whether the client has the response whose ETag is set. Koa compares copies of all headers, so requests without
 * the condition are sorted out before.
 */
export const isFresh = (ctx: RequestContext): boolean => {
  const { headers } = ctx.req;
  if (headers["if-none-match"] === undefined) {
    return false;
  }
  // It must be ignored then, which Koa does not (RFC 9110, section 13.1.3).
  delete headers["if-modified-since"];
  // Asks caches to revalidate; `fetch` adds no-cache to each conditional request. Koa takes it for a request of the body.
  delete headers["cache-control"];
  return ctx.fresh;
};
