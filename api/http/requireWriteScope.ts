import type { Middleware } from "koa";
import type { ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";

export const READ_ONLY_MESSAGE = "this API key is read-only";

/** Rejects writes with a read-only key. */
export const requireWriteScope: Middleware<ApiState> = (ctx, next) => {
  if (ctx.state.caller?.scope !== "write") {
    throw new HttpError("key_read_only", READ_ONLY_MESSAGE);
  }
  return next();
};
