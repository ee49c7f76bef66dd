import type { IncomingMessage } from "node:http";
import { finished } from "node:stream";
import { HttpError } from "../http/httpError.ts";

export const bodyTooLarge = (limitKib: number): HttpError =>
  new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`);

/**
 * Receives the body of a request, whose chunks are copied into one buffer: a client may send a byte at a time.
 * The rest of a rejected body is discarded, so that the client reads the response and its connection can be used again.
 * @throws HttpError body_too_large, request_malformed if the client disconnects
 */
export const receiveBody = (request: IncomingMessage, limitKib: number): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const limit = limitKib * 1024;
    const announced = Number(request.headers["content-length"] ?? limit);
    if (announced > limit) {
      request.resume();
      reject(bodyTooLarge(limitKib));
      return;
    }
    const body = Buffer.allocUnsafe(announced);
    let length = 0;
    const fail = (error: HttpError): void => {
      stopWaiting();
      request.off("data", receive);
      request.resume();
      reject(error);
    };
    const receive = (chunk: Buffer): void => {
      if (length + chunk.length > limit) {
        fail(bodyTooLarge(limitKib));
        return;
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
