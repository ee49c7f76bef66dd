import type { ParameterizedContext } from "koa";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import { mustExist } from "../../runtime/errors.rules.ts";
import type { Gate } from "../../runtime/gate.ts";
import { passOf } from "../../runtime/server/openDoor.ts";

export type ApiState = {
  requestId: string;
  /** The pattern of the route that matched; absent for unknown paths. */
  route?: string;
  /** Absent on routes that need no key. */
  caller?: Caller;
  /** Why the database or the payment processor cannot be used; absent unless that is why the request is rejected. */
  reason?: string;
  /** Where the request has a place until its client has read the response; then a stalled client leaves it to others. */
  gate?: Gate;
};

export type RequestContext = ParameterizedContext<
  ApiState,
  { readonly params?: Readonly<Record<string, string>> }
>;

/** A page or file that needs no key, or a signed request of another company. It is not part of the API. */
export type Page = {
  /** `get` by default. */
  readonly method?: "post";
  readonly path: string;
  readonly run: (ctx: RequestContext) => Promise<void> | void;
};

export const pathParameter = ({ params }: RequestContext, name: string): string =>
  mustExist(params?.[name], `The route has no parameter ${name}.`);

/** Runs a request at another gate than that of the process, which decides from now on when it runs. */
export const runAt = <Result>(
  ctx: RequestContext,
  caller: Caller,
  gate: Gate,
  work: () => Promise<Result>,
): Promise<Result> => {
  const pass = passOf(ctx.req);
  pass?.gate.leave(pass);
  ctx.state.gate = gate;
  return gate.run(accountModeKey(caller), work);
};
