import type { Middleware } from "koa";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import { takeTurn } from "../../runtime/server/limitConcurrency.ts";
import { callerOf } from "./requestContext.ts";
import type { ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";

const runAfter = async (turn: Promise<boolean>, next: () => Promise<unknown>): Promise<void> => {
  if (!(await turn)) {
    throw new HttpError("request_malformed", "the client has disconnected");
  }
  await next();
};

/** Runs a request when its account has a turn. Its body is not read before, so the requests that wait take little memory. */
export const takeTurns: Middleware<ApiState> = (ctx, next) => {
  const turn = takeTurn(ctx.req, accountModeKey(callerOf(ctx)));
  return turn === null ? next() : runAfter(turn, next);
};
