import type { Middleware } from "koa";
import { accountModeKey } from "../../domain/accounts/accounts.ts";
import { takeTurn } from "../../program/server/limitConcurrency.ts";
import { callerOf } from "../http/requestContext.ts";
import type { ApiState } from "../http/requestContext.ts";
import { HttpError } from "../http/httpError.ts";

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
