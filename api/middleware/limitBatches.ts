import type { Middleware } from "koa";
import { DomainError } from "../../domain/errors.ts";
import { callerOf } from "../http/apiContext.ts";
import type { ApiState } from "../http/apiContext.ts";
import { createAccountCounts } from "../http/createAccountCounts.ts";

/** Each may take some ten megabytes until its response has been read. */
const MAXIMUM_BATCHES = 16;

/**
 * Rejects a batch while this process records too many. An account may have at most as many batches as there are free
 * places: a single busy account gets half of them, and the others find free ones.
 */
export const limitBatches = (): Middleware<ApiState> => {
  const counts = createAccountCounts();
  return async (ctx, next) => {
    const { accountId } = callerOf(ctx);
    const free = MAXIMUM_BATCHES - counts.total();
    if (counts.countOf(accountId) >= free) {
      throw new DomainError(
        "queue_full",
        free === 0
          ? "too many batches are being recorded, try again"
          : "too many batches of this account are being recorded, try again",
      );
    }
    const leave = counts.enter(accountId);
    try {
      await next();
    } finally {
      leave();
    }
  };
};
