import type { ParameterizedContext } from "koa";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import type { Gate } from "../../runtime/gate.ts";

/** What the middleware adds to a request. */
export type ApiState = {
  requestId: string;
  /** The pattern of the route that matched; absent for unknown paths. */
  route?: string;
  /** The values of the route's path parameters. */
  parameters?: Readonly<Record<string, string>>;
  /** Absent on routes that need no key. */
  caller?: Caller;
  /** Where the request has a place until its client has read the response; then a stalled client leaves it to others. */
  gate?: Gate;
};

export type RequestContext = ParameterizedContext<ApiState>;

export const callerOf = (ctx: RequestContext): Caller => {
  if (ctx.state.caller === undefined) {
    throw new TypeError("The route needs a caller, but is not authenticated.");
  }
  return ctx.state.caller;
};

export const pathParameter = (ctx: RequestContext, name: string): string => {
  const value = ctx.state.parameters?.[name];
  if (value === undefined) {
    throw new TypeError(`The route has no parameter ${name}.`);
  }
  return value;
};
