import type { IncomingHttpHeaders } from "node:http";
import type { Middleware } from "koa";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import type { Authenticate } from "../../modules/accounts/createAuthenticator.ts";
import type { ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";

/** Returns the key that a request claims to have, empty if there is none. */
const keyOf = ({ authorization = "" }: IncomingHttpHeaders): string => authorization;

/** Returns the caller of a request whose key is cached and valid, otherwise null. */
export const findCachedCaller =
  ({ findCached }: Authenticate) =>
  (headers: IncomingHttpHeaders): Caller | null =>
    findCached(keyOf(headers));

/** Rejects requests without a valid key, which is the value of `Authorization`. */
export const authenticate =
  (findCaller: Authenticate): Middleware<ApiState> =>
  async (ctx, next) => {
    const key = keyOf(ctx.req.headers);
    const caller = key === "" ? null : await findCaller(key);
    if (caller === null) {
      throw new DomainError("key_invalid", "invalid API key");
    }
    ctx.state.caller = caller;
    await next();
  };

export const READ_ONLY_MESSAGE = "this API key is read-only";

/** Rejects writes with a read-only key. */
export const requireWriteScope: Middleware<ApiState> = (ctx, next) => {
  if (ctx.state.caller?.scope !== "write") {
    throw new HttpError("key_read_only", READ_ONLY_MESSAGE);
  }
  return next();
};
