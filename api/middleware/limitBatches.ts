import type { Middleware } from "koa";
import { DomainError } from "../../domain/errors.ts";
import { callerOf } from "../http/apiContext.ts";
import type { ApiState } from "../http/apiContext.ts";

/** Each may take some ten megabytes until its response has been read. */
const MAXIMUM_BATCHES = 16;

/**
 * Rejects a batch while this process records too many. An account may have at most as many batches as there are free
 * places: a single busy account gets half of them, and the others find free ones.
 */
export const limitBatches = (maximum = MAXIMUM_BATCHES): Middleware<ApiState> => {
  const byAccount = new Map<string, number>();
  let total = 0;
  return async (ctx, next) => {
    const { accountId } = callerOf(ctx);
    const own = byAccount.get(accountId) ?? 0;
    const free = maximum - total;
    if (own >= free) {
      throw new DomainError(
        "queue_full",
        free === 0
          ? "too many batches are being recorded, try again"
          : "too many batches of this account are being recorded, try again",
      );
    }
    byAccount.set(accountId, own + 1);
    total += 1;
    try {
      await next();
    } finally {
      total -= 1;
      const left = (byAccount.get(accountId) ?? 0) - 1;
      if (left > 0) {
        byAccount.set(accountId, left);
      } else {
        byAccount.delete(accountId);
      }
    }
  };
};
