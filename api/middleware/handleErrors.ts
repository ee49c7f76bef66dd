import type { Middleware } from "koa";
import type { Logger } from "pino";
import { DomainError, OutageError } from "../../domain/errors.ts";
import type { ErrorCode } from "../../domain/errors.ts";
import type { ApiState } from "../http/apiContext.ts";
import type { PresentError } from "../../program/startServer.ts";
import { HttpError } from "../http/httpError.ts";

const STATUS = {
  request_invalid: 400,
  key_invalid: 403,
  record_not_found: 404,
  usage_not_on_file: 400,
  outside_billing_cycle: 403,
  queue_full: 503,
  charity_not_found: 400,
  donations_not_subscribed: 400,
  rate_limited: 429,
  balance_insufficient: 402,
  feature_disabled: 403,
} satisfies Record<ErrorCode, number>;

const asHttpError = (error: unknown): HttpError | null => {
  if (error instanceof HttpError) {
    return error;
  }
  if (error instanceof DomainError) {
    const status = STATUS[error.code];
    const headers = status === 429 || status === 503 ? { "Retry-After": "1" } : {};
    return new HttpError(status, error.message, { headers });
  }
  if (error instanceof OutageError) {
    return new HttpError(500, error.message);
  }
  return null;
};

/**
 * Answers refusals as JSON. An outage is a 500 in its own words, every other error a generic one; both are logged once
 * under the request's id.
 */
export const handleErrors =
  ({
    logger,
    presentError,
  }: {
    readonly logger: Logger;
    readonly presentError: PresentError;
  }): Middleware<ApiState> =>
  async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      const refusal = asHttpError(error);
      if (refusal === null || refusal.status === 500) {
        logger.error(
          { err: error, requestId: ctx.state.requestId, route: ctx.state.route },
          "fault",
        );
      }
      if (ctx.headerSent) {
        ctx.res.destroy();
        return;
      }
      const { status, message, headers, code } =
        refusal ?? new HttpError(500, "internal server error");
      ctx.respond = true;
      ctx.status = status;
      ctx.set(headers);
      ctx.body = presentError(status, message, code);
    }
  };
