import type { Middleware } from "koa";
import { runForAccount } from "../../db/connections/connectionShares.ts";
import type { ApiState } from "../http/apiContext.ts";

/** Unauthenticated requests share one account's part. */
const PUBLIC = "public";

/**
 * Counts the database connections of a request against the shares of its account and its kind.
 * @param kind requests of the same kind share connections
 */
export const shareConnections =
  (kind: string): Middleware<ApiState> =>
  (ctx, next) =>
    runForAccount({ accountId: ctx.state.caller?.accountId ?? PUBLIC, kind }, next);
