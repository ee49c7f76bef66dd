import type { IncomingMessage } from "node:http";
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

type Arriving = {
  readonly limitKib: number;
  /** How much may be in memory: its announced length, or its limit. */
  readonly bytes: number;
  readonly signal: AbortSignal;
};

/** Copies the chunks of a body into one buffer: a client may send a byte at a time. */
const collect = (
  request: IncomingMessage,
  { limitKib, bytes, signal }: Arriving,
): Promise<Buffer> =>
  new Promise((resolve, reject) => {
    const body = Buffer.allocUnsafe(bytes);
    let length = 0;
    const fail = (error: unknown): void => {
      stopWaiting();
      request.off("data", receive);
      reject(error);
    };
    const drop = (): void => fail(signal.reason);
    const receive = (chunk: Buffer): void => {
      if (length + chunk.length > limitKib * 1024) {
        fail(bodyTooLarge(limitKib));
        return;
      }
      length += chunk.copy(body, length);
    };
    const stopWaiting = finished(request, { writable: false }, (cause) => {
      signal.removeEventListener("abort", drop);
      if (cause) {
        const message = "the body ended before its announced length";
        fail(new HttpError("request_malformed", message, { cause }));
        return;
      }
      resolve(body.subarray(0, length));
    });
    signal.addEventListener("abort", drop, { once: true });
    request.on("data", receive);
  });

/** Names the client whose share a body counts against. */
export const bodyOwnerOf = ({ state: { caller } }: ApiContext): string =>
  caller?.accountId ?? PUBLIC;

/**
 * Receives the body of a request, and prepares it. Meanwhile the request has no place in the process, and its body counts
 * against the memory for bodies. The rest of a rejected body is discarded, so that the client reads the response and its
 * connection can be used again.
 * @param isCompressed whether `prepare` may make it as long as its limit
 * @param prepare given a signal, which is aborted if the body is dropped or its client disconnects
 * @throws HttpError body_too_large, request_malformed if the client disconnects, and what `prepare` throws
 * @throws DomainError queue_full
 */
export const receiveBody = <Result>(
  ctx: ApiContext,
  limitKib: number,
  prepare: (body: Buffer, signal: AbortSignal) => Promise<Result>,
  isCompressed = false,
): Promise<Result> =>
  withoutPlace(ctx.req, async () => {
    const { req: request, res: response, state } = ctx;
    const limit = limitKib * 1024;
    const bytes = Number(request.headers["content-length"] ?? limit);
    if (bytes > limit) {
      request.resume();
      throw bodyTooLarge(limitKib);
    }
    const gone = new AbortController();
    const add = state.caller ? addBodyOfAccount : addPublicBody;
    const remove = add(bodyOwnerOf(ctx), {
      bytes: isCompressed ? limit : bytes,
      drop: (error) => gone.abort(error),
    });
    const disconnect = (): void =>
      gone.abort(new HttpError("request_malformed", "the client has disconnected"));
    try {
      const body = await collect(request, { limitKib, bytes, signal: gone.signal });
      response.once("close", disconnect);
      if (response.destroyed) {
        disconnect();
      }
      return await prepare(body, gone.signal);
    } finally {
      response.off("close", disconnect);
      remove();
      request.resume();
    }
  });
