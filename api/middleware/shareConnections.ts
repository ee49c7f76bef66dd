import type { Middleware } from "koa";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { runForAccount } from "../../db/connections/connectionShares.ts";
import type { ApiState } from "../http/apiContext.ts";

/** Unauthenticated requests share one account's part. */
const PUBLIC = "public";

/**
 * Runs work whose database connections count against the shares of its account and its kind.
 * @param caller undefined for a request without a key
 * @param kind requests of the same kind share connections
 */
export const runForCaller = <Result>(
  caller: Caller | undefined,
  kind: string,
  work: () => Result,
): Result => runForAccount({ accountId: caller?.accountId ?? PUBLIC, kind }, work);

/** Runs requests of one kind for their callers. */
export const shareConnections =
  (kind: string): Middleware<ApiState> =>
  (ctx, next) =>
    runForCaller(ctx.state.caller, kind, next);
