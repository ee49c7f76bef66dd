import type { Middleware } from "koa";
import { MAXIMUM_ITEMS } from "../../domain/batches.ts";
import type { RequestLimiter } from "../../services/accounts/createRequestLimiter.ts";
import type { ApiState } from "../http/apiContext.ts";

/** In the benchmark, an item of a large batch takes 0.4 of the time of a request. */
const ITEMS_PER_REQUEST = 2;

const itemCountOf = (body: unknown): number =>
  typeof body === "object" && body !== null && "items" in body && Array.isArray(body.items)
    ? body.items.length
    : 0;

/**
 * Counts a batch as one request for each two items. The batch itself is not rejected, since it has been read already; the
 * next requests of the key are, until its allowance has refilled. A batch with too many items, which is rejected later,
 * costs no more than the largest one.
 */
export const chargeBatch =
  (limiter: RequestLimiter): Middleware<ApiState> =>
  (ctx, next) => {
    const { caller } = ctx.state;
    const itemCount = Math.min(itemCountOf(ctx.request.body), MAXIMUM_ITEMS);
    const requests = Math.ceil(itemCount / ITEMS_PER_REQUEST);
    if (caller !== undefined && requests > 1) {
      ctx.res.setHeader("RateLimit", limiter.charge(caller, requests - 1));
    }
    return next();
  };
