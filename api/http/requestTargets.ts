import type { Middleware } from "koa";
import type { RequestContext, ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";
import type { RouterContext } from "@koa/router";

/** Returns the path of the request target; null if it cannot be parsed, as Koa's type does not say. */
const pathOf = ({ request }: RequestContext): string | null => {
  try {
    return request.path;
  } catch {
    return null;
  }
};

/** Several times what browsers send. */
const MAXIMUM_ACCEPT_LENGTH = 1000;

/**
 * Rejects a request whose target is neither a path nor a URL with one. The path of a valid one is parsed only once.
 *
 * Treats an `Accept` header that is too long as absent. Koa's parser, which Koa also uses for redirects, takes a time that
 * grows with the square of its length.
 */
export const checkHead: Middleware<ApiState> = (ctx, next) => {
  if (pathOf(ctx)?.startsWith("/") !== true) {
    throw new HttpError("request_malformed", "the request target is not a valid URL");
  }
  const { headers } = ctx.req;
  if (headers.accept !== undefined && headers.accept.length > MAXIMUM_ACCEPT_LENGTH) {
    delete headers.accept;
  }
  return next();
};

/** Handles requests that match no route: 404 for an unknown path, 405 for an unknown method, 204 for OPTIONS. */
export const rejectUnmatched = (ctx: RouterContext<ApiState>): void => {
  const layers = (ctx.matched ?? []).filter((layer) => layer.methods.length > 0);
  const [layer] = layers;
  // A page that matches the path and the method, and passed the request on, has no content there.
  if (layer === undefined || layers.some(({ methods }) => methods.includes(ctx.method))) {
    throw new HttpError("path_not_found", "not found");
  }
  ctx.state.route = String(layer.path);
  const methods = new Set(layers.flatMap((each) => each.methods)).add("OPTIONS");
  const allow = [...methods].toSorted().join(", ");
  if (ctx.method === "OPTIONS") {
    ctx.set("Allow", allow);
    ctx.status = 204;
    return;
  }
  throw new HttpError("method_not_allowed", `method not allowed; allowed: ${allow}`, {
    headers: { Allow: allow },
  });
};
