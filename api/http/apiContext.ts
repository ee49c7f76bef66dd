import type { ParameterizedContext } from "koa";
import type { Caller } from "../../db/apiKeys.ts";

/** What the middleware finds out about a request. */
export type ApiState = {
  requestId: string;
  /** The pattern of the route that matched; absent for unknown paths. */
  route?: string;
  /** Absent where no key is asked for. */
  caller?: Caller;
};

export type ApiContext = ParameterizedContext<ApiState>;
