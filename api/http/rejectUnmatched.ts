import type { RouterContext } from "@koa/router";
import type { ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";

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
