import { randomUUID } from "node:crypto";
import type { IncomingHttpHeaders } from "node:http";
import type { Middleware } from "koa";
import type { ApiState } from "./requestContext.ts";

const WELL_FORMED = /^[\u0021-\u007E]{1,128}$/u;

/** Returns the client's own id of the request if it is well-formed, otherwise a new one. */
export const requestIdOf = (headers: IncomingHttpHeaders): string => {
  const given = headers["x-request-id"];
  return typeof given === "string" && WELL_FORMED.test(given) ? given : randomUUID();
};

/** Sets the request's id and returns it in `X-Request-Id`. */
export const identifyRequest = (): Middleware<ApiState> => (ctx, next) => {
  const requestId = requestIdOf(ctx.req.headers);
  ctx.state.requestId = requestId;
  ctx.res.setHeader("X-Request-Id", requestId);
  return next();
};
