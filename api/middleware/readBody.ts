import { Readable } from "node:stream";
import { promisify } from "node:util";
import { brotliDecompress, unzip } from "node:zlib";
import type { Middleware } from "koa";
import bodyParser from "koa-bodyparser";
import type { ApiContext, ApiState } from "../http/apiContext.ts";
import { isJsonInUtf8 } from "../http/contentType.ts";
import { HttpError } from "../http/httpError.ts";
import { bodyTooLarge, receiveBody } from "./receiveBody.ts";

/** The largest body of a request, and of a batch. */
export const BODY_KIB = 64;
export const BATCH_BODY_KIB = 1024;

const asHttpError = (
  error: Error & { type?: string; status?: number },
  limitKib: number,
): HttpError => {
  if (error.type === "entity.too.large") {
    return bodyTooLarge(limitKib);
  }
  if (error.type === "request.aborted" || error.type === "request.size.invalid") {
    return new HttpError("request_malformed", "the body ended before its announced length", {
      cause: error,
    });
  }
  return new HttpError(
    "request_malformed",
    `the body is not a valid JSON object: ${error.message}`,
    { cause: error },
  );
};

const requireJson = (contentType: string | undefined, hasBody: boolean): void => {
  if (hasBody && (contentType === undefined || !isJsonInUtf8(contentType))) {
    throw new HttpError(
      "request_malformed",
      "the body must be JSON in UTF-8, sent with the header Content-Type: application/json",
    );
  }
};

const inflate = promisify(unzip);

/** By content coding. */
const DECODERS: ReadonlyMap<string, typeof inflate> = new Map([
  ["gzip", inflate],
  ["deflate", inflate],
  ["br", promisify(brotliDecompress)],
]);

const cannotBeRead = (reason: string, cause?: unknown): HttpError =>
  new HttpError("request_malformed", `the body cannot be read: ${reason}`, { cause });

/**
 * Receives a compressed body and decompresses it.
 * @throws HttpError body_too_large, request_malformed
 */
const receiveCompressed = async (
  ctx: ApiContext,
  coding: string,
  limitKib: number,
): Promise<Buffer> => {
  const decode = DECODERS.get(coding);
  if (decode === undefined) {
    throw cannotBeRead(
      `unsupported Content-Encoding; supported: ${[...DECODERS.keys()].join(", ")}`,
    );
  }
  const received = await receiveBody(ctx.req, limitKib);
  try {
    return await decode(received, { maxOutputLength: limitKib * 1024 });
  } catch (error) {
    if (error instanceof RangeError) {
      throw bodyTooLarge(limitKib);
    }
    throw cannotBeRead(error instanceof Error ? error.message : String(error), error);
  }
};

/** Returns the context of the same request with a body that has been received. */
const withBody = (ctx: ApiContext, body: Buffer): ApiContext => {
  const req = Object.assign(Readable.from([body]), { headers: {} });
  return Object.create(ctx, { req: { value: req } });
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
  return async (ctx, next) => {
    const { headers } = ctx.req;
    const hasBody =
      headers["transfer-encoding"] !== undefined || (headers["content-length"] ?? "0") !== "0";
    requireJson(headers["content-type"], hasBody);
    const coding = headers["content-encoding"] ?? "identity";
    if (coding === "identity" || !hasBody) {
      return parse(ctx, next);
    }
    const body = await receiveCompressed(ctx, coding, limitKib);
    return parse(withBody(ctx, body), next);
  };
};
