import type { Middleware } from "koa";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import { takeTurn, withoutPlace } from "../../runtime/server/limitConcurrency.ts";
import { callerOf } from "./requestContext.ts";
import type { ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";
import type { TakePermit } from "../../db/rateLimits.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { createConnectionShares } from "../../db/pools/connectionShares.ts";

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

const RATE_WINDOW_MS = 1000;

/** Limits how many requests of one key an endpoint accepts in any second; a rejected request has no effect. */
export const limitRate =
  ({
    takePermit,
    endpoint,
    requestsPerSecond,
  }: {
    readonly takePermit: TakePermit;
    readonly endpoint: string;
    readonly requestsPerSecond: number;
  }): Middleware<ApiState> =>
  async (ctx, next) => {
    const limit = { requests: requestsPerSecond, windowMs: RATE_WINDOW_MS };
    if (!(await takePermit(`${callerOf(ctx).keyId} ${endpoint}`, limit))) {
      throw new DomainError("rate_limited", "rate limit exceeded");
    }
    await next();
  };

/** Places for responses that hold much memory for as long as their clients take to read them. */
export type Places = {
  /**
   * Runs work when it is its turn. Accounts take turns, and one has half of the places at most.
   * @throws DomainError queue_full if too much work waits, or this has waited too long
   */
  readonly run: <Result>(accountName: string, work: () => Promise<Result>) => Promise<Result>;
  readonly usedCount: () => number;
  /** Returns whether work waits, so that a client that does not read must leave its place. */
  readonly areNeeded: () => boolean;
};

export const createPlaces = (maximum: number): Places => {
  const shares = createConnectionShares({
    total: maximum,
    perKind: maximum,
    perAccount: Math.ceil(maximum / 2),
  });
  return {
    run: (accountId, work) => shares.run({ accountId, kind: "any" }, work),
    usedCount: shares.usedCount,
    areNeeded: () => shares.waitingCount() > 0,
  };
};

/** Each may take some ten megabytes until its response has been read. */
const CONCURRENT_BATCHES = 16;

/** Lets batches wait while this process records too many. */
export const limitBatches = (): Middleware<ApiState> => {
  const places = createPlaces(CONCURRENT_BATCHES);
  return (ctx, next) => {
    ctx.state.arePlacesNeeded = places.areNeeded;
    return withoutPlace(ctx.req, () => places.run(callerOf(ctx).accountId, next));
  };
};
