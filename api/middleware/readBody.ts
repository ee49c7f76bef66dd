import type { Middleware } from "koa";
import bodyParser from "koa-bodyparser";
import type { ApiState } from "../http/apiContext.ts";
import { isJsonInUtf8 } from "../http/contentType.ts";
import { HttpError } from "../http/httpError.ts";

/** The largest body of a request, and of a batch. */
export const BODY_KIB = 64;
export const BATCH_BODY_KIB = 1024;

/** An error of no known type comes from the bytes themselves, such as invalid gzip. */
const asHttpError = (
  error: Error & { type?: string; status?: number },
  limitKib: number,
): HttpError => {
  if (error.type === "entity.too.large") {
    return new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`, {
      cause: error,
    });
  }
  if (error.type === "request.aborted" || error.type === "request.size.invalid") {
    return new HttpError("request_malformed", "the body ended before its announced length", {
      cause: error,
    });
  }
  if (error instanceof SyntaxError) {
    return new HttpError(
      "request_malformed",
      `the body is not a valid JSON object: ${error.message}`,
      {
        cause: error,
      },
    );
  }
  return new HttpError("request_malformed", `the body cannot be read: ${error.message}`, {
    cause: error,
  });
};

const requireJson = (contentType: string | undefined, hasBody: boolean): void => {
  if (hasBody && (contentType === undefined || !isJsonInUtf8(contentType))) {
    throw new HttpError(
      "request_malformed",
      "the body must be JSON in UTF-8, sent with the header Content-Type: application/json",
    );
  }
};

/** Parses a JSON body of limited size; a request without a body has an empty object. */
export const readBody = (limitKib: number): Middleware<ApiState> => {
  const parse = bodyParser({
    enableTypes: ["json"],
    // The type was checked by requireJson, which accepts more spellings.
    detectJSON: () => true,
    jsonLimit: `${limitKib}kb`,
    onerror: (error) => {
      throw asHttpError(error, limitKib);
    },
  });
  return (ctx, next) => {
    const { headers } = ctx.req;
    const hasBody =
      headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
    requireJson(headers["content-type"], hasBody);
    return parse(ctx, next);
  };
};
