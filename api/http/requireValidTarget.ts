import type { Middleware } from "koa";
import type { RequestContext, ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";

/** Returns the path of the request target; null if it cannot be parsed, as Koa's type does not say. */
const pathOf = ({ request }: RequestContext): string | null => {
  try {
    return request.path;
  } catch {
    return null;
  }
};

/** Rejects a request whose target is neither a path nor a URL with one. The path of a valid one is parsed only once. */
export const requireValidTarget: Middleware<ApiState> = (ctx, next) => {
  if (pathOf(ctx)?.startsWith("/") !== true) {
    throw new HttpError("request_malformed", "the request target is not a valid URL");
  }
  return next();
};
