import { randomUUID } from "node:crypto";
import type { Middleware } from "koa";
import type { ApiState } from "../http/apiContext.ts";

const WELL_FORMED = /^[\u0021-\u007E]{1,128}$/u;

/** Sets the request's id and returns it in `X-Request-Id`: the client's own if it is well-formed, otherwise a new one. */
export const identifyRequest = (): Middleware<ApiState> => (ctx, next) => {
  const given = ctx.req.headers["x-request-id"];
  const requestId = typeof given === "string" && WELL_FORMED.test(given) ? given : randomUUID();
  ctx.state.requestId = requestId;
  ctx.res.setHeader("X-Request-Id", requestId);
  return next();
};
