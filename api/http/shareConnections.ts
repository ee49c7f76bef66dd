import type { Middleware } from "koa";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { runForAccount } from "../../db/pools/connectionShares.ts";
import type { ApiState } from "./requestContext.ts";
import { parseQueryString } from "./parseRequest.ts";

/** Records may have to be read to find those of a customer: by a part of a name, or because a customer has many. */
const CUSTOMER = ["customer_name", "customer_email", "email", "customer_id", "customer"];
const CUSTOMER_OR_ORDER = [...CUSTOMER, "order_id"];

/**
 * The endpoints with queries that may read many records, and the parameters with which they do; `any` if also without
 * parameters. Slow reads have a part of the connections, so that short ones never wait for them. An endpoint that is not
 * here must read counters, rows by their ids, or a bounded part of an index.
 */
export const SLOW_READS: Readonly<Record<string, readonly string[] | "any">> = {
  "get /stats": "any",
  "get /charities/donations": "any",
  "get /usage": ["state"],
  "get /webhook_endpoints/:id/deliveries": ["state"],
  "get /app/api/plant": CUSTOMER_OR_ORDER,
  "get /app/api/plastic": CUSTOMER_OR_ORDER,
  "get /app/api/charity/donations": CUSTOMER_OR_ORDER,
  "get /app/api/impact/stats": CUSTOMER,
  "get /app/api/evidence": ["project_public_id", "region"],
  "get /app/api/webhook_endpoints/:id/deliveries": ["state"],
};

/**
 * Returns a function that decides by the query string whether a request to an endpoint is a slow read.
 * @param endpoint its method and path
 */
const createSlowReadCheck = (endpoint: string): ((querystring: string) => boolean) => {
  const parameters = SLOW_READS[endpoint];
  if (parameters === undefined || parameters === "any") {
    const isSlow = parameters === "any";
    return () => isSlow;
  }
  return (querystring) => {
    const given = parseQueryString(querystring);
    return parameters.some((name) => given[name] !== undefined);
  };
};

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
