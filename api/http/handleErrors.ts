import type { Middleware } from "koa";
import type { Logger } from "pino";
import { DomainError, OutageError, UnavailableError } from "../../runtime/errors.rules.ts";
import type { ApiState } from "./requestContext.ts";
import { ERROR_STATUS } from "../../runtime/errorStatus.ts";
import type { ApiErrorCode, PresentError } from "../../runtime/errorStatus.ts";
import { HttpError } from "./httpError.ts";
import type { ServerResponse } from "node:http";

/**
 * Ends a response that is not complete. Its connection is reset: to a client of HTTP/1.0, such as nginx by default, a
 * connection that is closed is the end of a complete response.
 */
export const breakResponse = (response: ServerResponse): void => {
  // A response behind another one of its connection has no socket yet, and is for HTTP/1.1.
  response.socket?.resetAndDestroy();
  response.destroy();
};

/** The parts of an error that the client sees. */
type ReportedError = {
  readonly code: ApiErrorCode;
  readonly message: string;
  readonly headers: Readonly<Record<string, string>>;
};

/** Headers of a list that describe only its success, and may be set before reading it fails. */
const LIST_HEADERS = ["Content-Disposition", "Link"];

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
  if (error instanceof UnavailableError) {
    return { code: "service_unavailable", message: error.message, headers: RETRY_LATER };
  }
  if (error instanceof OutageError) {
    return { code: "internal_error", message: error.message, headers: {} };
  }
  return null;
};

/**
 * Turns errors into JSON responses. An outage is a 500 with its own message, any other unexpected error a 500 with a
 * generic one; both are logged once with the request's id. If the database cannot be reached, or the payment processor
 * cannot be used because it is down or its key is missing, not accepted or of another account, and nothing was done, the
 * response is a 503, and the request's own line in the log has the reason.
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
      if (error instanceof UnavailableError) {
        const { cause, message } = error;
        ctx.state.reason = cause instanceof Error ? cause.message : message;
      }
      if (reported === null || reported.code === "internal_error") {
        logger.error(
          { err: error, requestId: ctx.state.requestId, route: ctx.state.route },
          "request failed",
        );
      }
      if (ctx.headerSent) {
        breakResponse(ctx.res);
        return;
      }
      const { code, message, headers } =
        reported ?? new HttpError("internal_error", "internal server error");
      for (const name of LIST_HEADERS) {
        ctx.remove(name);
      }
      ctx.respond = true;
      ctx.status = ERROR_STATUS[code];
      ctx.set(headers);
      ctx.body = presentError(code, message);
    }
  };
