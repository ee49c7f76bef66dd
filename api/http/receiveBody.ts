import type { IncomingMessage } from "node:http";
import { finished } from "node:stream";
import { holdBytes, withoutPlace } from "../../runtime/server/openDoor.ts";
import type { RequestContext } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";
import { isUtf8 } from "node:buffer";

export const bodyTooLarge = (limitKib: number): HttpError =>
  new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`);

/** What a body of unknown length gets first. */
const FIRST_BYTES = 1024;

type Arriving = {
  readonly limitKib: number;
  /** Null if it is not known. */
  readonly announcedBytes: number | null;
};

/** Copies the chunks of a body into one buffer: a client may send a byte at a time. */
const collect = (
  request: IncomingMessage,
  { limitKib, announcedBytes }: Arriving,
): Promise<Buffer> => {
  const limit = limitKib * 1024;
  const allocate = (bytes: number): Buffer => {
    holdBytes(request, bytes);
    return Buffer.allocUnsafe(bytes);
  };
  return new Promise((resolve, reject) => {
    let body = allocate(announcedBytes ?? Math.min(FIRST_BYTES, limit));
    let length = 0;
    const fail = (error: unknown): void => {
      stopWaiting();
      request.off("data", receive);
      reject(error);
    };
    const receive = (chunk: Buffer): void => {
      const needed = length + chunk.length;
      if (needed > limit) {
        fail(bodyTooLarge(limitKib));
        return;
      }
      if (needed > body.length) {
        try {
          const larger = allocate(Math.min(limit, Math.max(needed, 2 * body.length)));
          body.copy(larger, 0, 0, length);
          body = larger;
        } catch (error) {
          fail(error);
          return;
        }
      }
      length += chunk.copy(body, length);
    };
    const stopWaiting = finished(request, { writable: false }, (cause) => {
      if (cause) {
        const message = "the body ended before its announced length";
        fail(new HttpError("request_malformed", message, { cause }));
        return;
      }
      resolve(body.subarray(0, length));
    });
    request.on("data", receive);
  });
};

/**
 * Receives the body of a request, and prepares it. Meanwhile the request has no place in the process, and holds the bytes of
 * its body. The rest of a rejected body is discarded, so that the client reads the response and its connection can be used
 * again.
 * @throws HttpError body_too_large, request_malformed if the client disconnects, and what `prepare` throws
 * @throws DomainError queue_full
 */
export const receiveBody = <Result>(
  { req: request }: RequestContext,
  limitKib: number,
  prepare: (body: Buffer) => Promise<Result>,
): Promise<Result> =>
  withoutPlace(request, async () => {
    const header = request.headers["content-length"];
    const announcedBytes = header === undefined ? null : Number(header);
    try {
      if (announcedBytes !== null && announcedBytes > limitKib * 1024) {
        throw bodyTooLarge(limitKib);
      }
      return await prepare(await collect(request, { limitKib, announcedBytes }));
    } finally {
      holdBytes(request, 0);
      request.resume();
    }
  });

/**
 * Rejects a body that is not UTF-8. A decoder would replace its invalid bytes, and the replacements would be stored.
 * @throws HttpError request_malformed
 */
export const requireUtf8 = (body: Buffer): void => {
  if (!isUtf8(body)) {
    throw new HttpError("request_malformed", "the body is not valid UTF-8");
  }
};

/**
 * Reads a body whose signature covers its bytes.
 * @throws HttpError body_too_large, request_malformed
 */
export const readRawBody = (ctx: RequestContext, limitKib: number): Promise<string> =>
  receiveBody(ctx, limitKib, (body) => {
    requireUtf8(body);
    return Promise.resolve(body.toString("utf8"));
  });
