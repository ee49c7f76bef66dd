import type { Middleware } from "koa";
import type { Logger } from "pino";
import { DomainError, OutageError } from "../../domain/errors.ts";
import type { ApiState } from "../http/apiContext.ts";
import { ERROR_STATUS } from "../../program/apiErrors.ts";
import type { ApiErrorCode, PresentError } from "../../program/apiErrors.ts";
import { HttpError } from "../http/httpError.ts";

/** The parts of an error that the client sees. */
type ReportedError = {
  readonly code: ApiErrorCode;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
};

const RETRY_LATER = { "Retry-After": "1" };

/** Returns the error response for an error whose message is for the client, null for any other. */
const asReportedError = (error: unknown): ReportedError | null => {
  if (error instanceof HttpError) {
    return error;
  }
  if (error instanceof DomainError) {
    const { code, message } = error;
    const status = ERROR_STATUS[code];
    return { code, message, headers: status === 429 || status === 503 ? RETRY_LATER : {} };
  }
  if (error instanceof OutageError) {
    return { code: "internal_error", message: error.message, headers: {} };
  }
  return null;
};

/**
 * Turns errors into JSON responses. An outage is a 500 with its own message, any other unexpected error a 500 with a
 * generic one; both are logged once with the request's id.
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
      const reported = asReportedError(error);
      if (reported === null || reported.code === "internal_error") {
        logger.error(
          { err: error, requestId: ctx.state.requestId, route: ctx.state.route },
          "request failed",
        );
      }
      if (ctx.headerSent) {
        ctx.res.destroy();
        return;
      }
      const { code, message, headers } =
        reported ?? new HttpError("internal_error", "internal server error");
      ctx.respond = true;
      ctx.status = ERROR_STATUS[code];
      ctx.set(headers);
      ctx.body = presentError(code, message);
    }
  };
