import type { Middleware } from "koa";
import { DomainError } from "../../domain/errors.ts";
import type { Authenticate } from "../../services/accounts/createAuthenticator.ts";
import type { ApiState } from "../http/apiContext.ts";

/** Rejects requests without a valid key, which is the value of `Authorization`, with or without the prefix `Bearer`. */
export const authenticate =
  (findCaller: Authenticate): Middleware<ApiState> =>
  async (ctx, next) => {
    const key = (ctx.req.headers.authorization ?? "").replace(/^Bearer +/iu, "");
    const caller = key === "" ? null : await findCaller(key);
    if (caller === null) {
      throw new DomainError("key_invalid", "invalid API key");
    }
    ctx.state.caller = caller;
    await next();
  };
