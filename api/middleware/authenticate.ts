import type { Middleware } from "koa";
import type { Caller } from "../../db/apiKeys.ts";
import { DomainError } from "../../domain/errors.ts";
import type { ApiState } from "../http/apiContext.ts";

/** Answers who a key speaks for, null for a key that is unknown or revoked. */
export type Authenticator = (key: string) => Promise<Caller | null>;

/** Lets only requests pass that carry a key, raw, in `Authorization`. */
export const authenticate =
  (findCaller: Authenticator): Middleware<ApiState> =>
  async (ctx, next) => {
    const key = ctx.req.headers.authorization;
    const caller = key === undefined || key === "" ? null : await findCaller(key);
    if (caller === null) {
      throw new DomainError("key_invalid", "invalid API key");
    }
    ctx.state.caller = caller;
    await next();
  };
