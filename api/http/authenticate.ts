import type { Middleware } from "koa";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { Authenticate } from "../../modules/accounts/createAuthenticator.ts";
import type { ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";

/** Rejects requests without a valid key, which is the value of `Authorization`. */
export const authenticate =
  (findCaller: Authenticate): Middleware<ApiState> =>
  async (ctx, next) => {
    const { authorization: key = "" } = ctx.req.headers;
    const caller = key === "" ? null : await findCaller(key);
    if (caller?.accountType !== "organization") {
      throw new DomainError("key_invalid", "invalid API key");
    }
    ctx.state.caller = caller;
    await next();
  };

/** Rejects writes with a read-only key. */
export const requireWriteScope: Middleware<ApiState> = (ctx, next) => {
  if (ctx.state.caller?.scope !== "write") {
    throw new HttpError("key_read_only", "this API key is read-only");
  }
  return next();
};
