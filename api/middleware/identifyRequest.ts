import { randomUUID } from "node:crypto";
import type { Middleware } from "koa";
import type { ApiState } from "../http/apiContext.ts";

const WELL_FORMED = /^[\u0021-\u007E]{1,128}$/u;

/** Gives the request an id, the client's own where it sent a usable one, and tells it in `X-Request-Id`. */
export const identifyRequest = (): Middleware<ApiState> => (ctx, next) => {
  const given = ctx.req.headers["x-request-id"];
  const requestId = typeof given === "string" && WELL_FORMED.test(given) ? given : randomUUID();
  ctx.state.requestId = requestId;
  ctx.res.setHeader("X-Request-Id", requestId);
  return next();
};
