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

/** Headers of a list that describe only its success, and may be set before reading it fails. */
const LIST_HEADERS = ["Content-Disposition", "Link"];

/** Returns what the client sees of an error: its own message only if that is for the client. */
const reportOf = (error: unknown): { readonly code: ApiErrorCode; readonly message: string } => {
  if (error instanceof HttpError || error instanceof DomainError) {
    return error;
  }
  if (error instanceof UnavailableError) {
    return { code: "service_unavailable", message: error.message };
  }
  const message = error instanceof OutageError ? error.message : "internal server error";
  return { code: "internal_error", message };
};

/**
 * Turns errors into JSON responses. An outage is a 500 with its own message, any other unexpected error a 500 with a
 * generic one; both are logged once with the request's id. If the database cannot be reached, or the payment processor
 * cannot be used because it is down or its key is missing, not accepted or of another account, and nothing was done, the
 * response is a 503, and the request's own line in the log has the reason.
 */
export const handleErrors =
  (logger: Logger, presentError: PresentError): Middleware<ApiState> =>
  async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      const { code, message } = reportOf(error);
      const status = ERROR_STATUS[code];
      if (error instanceof UnavailableError) {
        const { cause } = error;
        ctx.state.reason = cause instanceof Error ? cause.message : message;
      }
      if (code === "internal_error") {
        const { requestId, route } = ctx.state;
        logger.error({ err: error, requestId, route }, "request failed");
      }
      if (ctx.headerSent) {
        breakResponse(ctx.res);
        return;
      }
      for (const name of LIST_HEADERS) {
        ctx.remove(name);
      }
      ctx.respond = true;
      ctx.status = status;
      if (status === 429 || status === 503) {
        ctx.set("Retry-After", "1");
      }
      ctx.body = presentError(code, message);
    }
  };
