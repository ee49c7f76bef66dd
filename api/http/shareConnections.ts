import type { Middleware } from "koa";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { runForAccount } from "../../db/pools/connectionShares.ts";
import { createSlowReadCheck } from "./slowReads.ts";
import type { ApiState } from "./requestContext.ts";

/** Unauthenticated requests share one account's part. */
export const PUBLIC = "public";

/**
 * Runs work whose database connections count against the shares of its account and its kind.
 * @param caller undefined for a request without a key
 * @param request.kind requests of the same kind share connections
 */
export const runForCaller = <Result>(
  caller: Caller | undefined,
  request: { readonly kind: string; readonly isSlowRead: boolean },
  work: () => Result,
): Result => runForAccount({ accountId: caller?.accountId ?? PUBLIC, ...request }, work);

/** Runs requests of one kind, an endpoint's or a page's, for their callers. */
export const shareConnections = (kind: string): Middleware<ApiState> => {
  const isSlowRead = createSlowReadCheck(kind);
  return (ctx, next) =>
    runForCaller(ctx.state.caller, { kind, isSlowRead: isSlowRead(ctx.querystring) }, next);
};
