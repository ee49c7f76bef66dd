import type { ParameterizedContext } from "koa";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import type { Store } from "../../db/stores/stores.ts";

/** What the middleware finds out about a request. */
export type ApiState = {
  requestId: string;
  /** The pattern of the route that matched; absent for unknown paths. */
  route?: string;
  /** What stands in the path where the route has parameters. */
  parameters?: Readonly<Record<string, string>>;
  /** Absent where no key is asked for. */
  caller?: Caller;
  /** The caller's store, on the stores' interface; its balance may be some seconds old. */
  store?: Store;
};

export type ApiContext = ParameterizedContext<ApiState>;

/** A parameter of the route's path. */
export const pathParameter = (ctx: ApiContext, name: string): string => {
  const value = ctx.state.parameters?.[name];
  if (value === undefined) {
    throw new TypeError(`The route has no parameter ${name}.`);
  }
  return value;
};
