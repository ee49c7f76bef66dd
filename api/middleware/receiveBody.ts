import { finished } from "node:stream";
import { withoutPlace } from "../../program/server/limitConcurrency.ts";
import type { ApiContext } from "../http/apiContext.ts";
import { createArrivingBodies } from "../http/arrivingBodies.ts";
import { HttpError } from "../http/httpError.ts";
import { PUBLIC } from "./shareConnections.ts";

/** Of both interfaces. */
const addBodyOfAccount = createArrivingBodies(32 * 1024 * 1024);

/** As many as 16 of the largest signed bodies. Clients without a key have a limit of their own, and share it. */
const addPublicBody = createArrivingBodies(8 * 1024 * 1024);

export const bodyTooLarge = (limitKib: number): HttpError =>
  new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`);

/**
 * Receives the body of a request, whose chunks are copied into one buffer: a client may send a byte at a time. Meanwhile
 * the request has no place in the process. The rest of a rejected body is discarded, so that the client reads the response
 * and its connection can be used again.
 * @throws HttpError body_too_large, request_malformed if the client disconnects
 * @throws DomainError queue_full
 */
export const receiveBody = (
  { req: request, state: { caller } }: ApiContext,
  limitKib: number,
): Promise<Buffer> =>
  withoutPlace(
    request,
    () =>
      new Promise((resolve, reject) => {
        const limit = limitKib * 1024;
        const bytes = Number(request.headers["content-length"] ?? limit);
        if (bytes > limit) {
          request.resume();
          reject(bodyTooLarge(limitKib));
          return;
        }
        const fail = (error: Error): void => {
          remove();
          stopWaiting();
          request.off("data", receive);
          request.resume();
          reject(error);
        };
        const remove = caller
          ? addBodyOfAccount(caller.accountId, { bytes, drop: fail })
          : addPublicBody(PUBLIC, { bytes, drop: fail });
        const body = Buffer.allocUnsafe(bytes);
        let length = 0;
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
          remove();
          resolve(body.subarray(0, length));
        });
        request.on("data", receive);
      }),
  );
