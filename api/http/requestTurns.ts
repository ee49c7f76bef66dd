import type { Middleware } from "koa";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import type { TakePermit } from "../../db/rateLimits.ts";
import { runForClient } from "../../runtime/client.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { Gate } from "../../runtime/gate.ts";
import { leaveDoor, nameClient } from "../../runtime/server/openDoor.ts";
import { clientAddress } from "./observeRequests.ts";
import { callerOf } from "./requestContext.ts";
import type { ApiState, RequestContext } from "./requestContext.ts";

/** Runs a request as one of a client, for whose turn it may wait before its body is read, and its queries as those of a group. */
const runAs = (
  { req }: RequestContext,
  client: string,
  group: string,
  next: () => Promise<unknown>,
): Promise<unknown> => {
  const turn = nameClient(req, client);
  return turn === null ? runForClient(group, next) : turn.then(() => runForClient(group, next));
};

/** Runs requests for their accounts. */
export const runForAccounts: Middleware<ApiState> = (ctx, next) => {
  const name = accountModeKey(callerOf(ctx));
  return runAs(ctx, name, name, next);
};

/**
 * Runs requests of a route that needs no key. Whatever key one claims to have, its address is its client. Its queries wait
 * among those of the route, so that many addresses do not get more connections than an account.
 */
export const runForVisitors =
  (route: string, trustedProxies: number): Middleware<ApiState> =>
  (ctx, next) =>
    runAs(ctx, clientAddress(ctx.req, trustedProxies) ?? "", route, next);

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

/** Each may take some ten megabytes until its response has been read. */
const CONCURRENT_BATCHES = 16;

/** Lets batches wait while this process records too many. */
export const limitBatches = (): Middleware<ApiState> => {
  const gate = new Gate({ places: CONCURRENT_BATCHES });
  return (ctx, next) => {
    leaveDoor(ctx.req);
    ctx.state.gate = gate;
    return gate.run(accountModeKey(callerOf(ctx)), next);
  };
};

/** Of lists that are sent at the same time. Each may hold a megabyte until its client has read it. */
const MAXIMUM_LISTS = 64;

/** Creates the gate of lists. */
export const createListGate = (): Gate => new Gate({ places: MAXIMUM_LISTS });
