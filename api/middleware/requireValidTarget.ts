import type { Middleware } from "koa";
import type { ApiState } from "../http/apiContext.ts";
import { HttpError } from "../http/httpError.ts";

/** Rejects a request whose target is an absolute URL that cannot be parsed. The path of a valid one is parsed only once. */
export const requireValidTarget: Middleware<ApiState> = (ctx, next) => {
  try {
    void ctx.path;
  } catch (cause) {
    throw new HttpError("request_malformed", "the request target is not a valid URL", { cause });
  }
  return next();
};
