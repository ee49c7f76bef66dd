import type { Middleware } from "koa";
import type { ApiState } from "./requestContext.ts";

/** Several times what browsers send. */
const MAXIMUM_LENGTH = 1000;

/**
 * Treats an `Accept` header that is too long as absent. Koa's parser, which Koa also uses for redirects, takes a time that
 * grows with the square of its length.
 */
export const ignoreLongAccept: Middleware<ApiState> = (ctx, next) => {
  const { headers } = ctx.req;
  if (headers.accept !== undefined && headers.accept.length > MAXIMUM_LENGTH) {
    delete headers.accept;
  }
  return next();
};
