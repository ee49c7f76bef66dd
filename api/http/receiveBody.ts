import type { IncomingMessage } from "node:http";
import { finished } from "node:stream";
import { withoutPlace } from "../../runtime/server/limitConcurrency.ts";
import type { RequestContext } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";
import { PUBLIC } from "./shareConnections.ts";
import { DomainError } from "../../runtime/errors.rules.ts";
import { isUtf8 } from "node:buffer";

type Body = { bytes: number; readonly drop: (error: DomainError) => void };

/** The bodies of a client, the oldest first. */
type Client = { bytes: number; readonly bodies: Set<Body> };

/** The memory of a body. */
type BodyMemory = {
  /** @throws DomainError queue_full */
  readonly resize: (bytes: number) => void;
  readonly free: () => void;
};

const tooMany = (): DomainError =>
  new DomainError("queue_full", "too many request bodies are arriving, try again");

/**
 * Limits the memory for bodies that are arriving. A client may have as much as is free. If it needs more, its own oldest
 * bodies are dropped: they are more likely to have stalled.
 * @returns a function that adds a body, which has no memory yet
 */
export const createArrivingBodies = (
  maximumBytes: number,
): ((clientName: string, drop: Body["drop"]) => BodyMemory) => {
  const clients = new Map<string, Client>();
  let total = 0;
  return (name, drop) => {
    const client = clients.get(name) ?? { bytes: 0, bodies: new Set() };
    const body: Body = { bytes: 0, drop };
    const free = (freed: Body): void => {
      if (client.bodies.delete(freed)) {
        client.bytes -= freed.bytes;
        total -= freed.bytes;
        if (client.bodies.size === 0) {
          clients.delete(name);
        }
      }
    };
    clients.set(name, client);
    client.bodies.add(body);
    return {
      resize: (bytes) => {
        if (!client.bodies.has(body)) {
          return;
        }
        if (bytes > maximumBytes - (total - client.bytes)) {
          // Not even without the client's other bodies.
          throw tooMany();
        }
        for (const oldest of client.bodies) {
          if (client.bytes + bytes - body.bytes <= maximumBytes - (total - body.bytes)) {
            break;
          }
          if (oldest !== body) {
            free(oldest);
            oldest.drop(tooMany());
          }
        }
        client.bytes += bytes - body.bytes;
        total += bytes - body.bytes;
        body.bytes = bytes;
      },
      free: () => free(body),
    };
  };
};

/** Of both interfaces. */
const addBodyOfAccount = createArrivingBodies(64 * 1024 * 1024);

/** As many as 16 of the largest signed bodies. Clients without a key have a limit of their own, and share it. */
const addPublicBody = createArrivingBodies(8 * 1024 * 1024);

export const bodyTooLarge = (limitKib: number): HttpError =>
  new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`);

/** What a body of unknown length gets first. */
const FIRST_BYTES = 64 * 1024;

type Arriving = {
  readonly limitKib: number;
  /** Null if it is not known. */
  readonly announcedBytes: number | null;
  readonly resize: BodyMemory["resize"];
  readonly signal: AbortSignal;
};

/** Copies the chunks of a body into one buffer: a client may send a byte at a time. */
const collect = (
  request: IncomingMessage,
  { limitKib, announcedBytes, resize, signal }: Arriving,
): Promise<Buffer> => {
  const limit = limitKib * 1024;
  const allocate = (bytes: number): Buffer => {
    resize(bytes);
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
    const drop = (): void => fail(signal.reason);
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
};

/** Names the client whose share a body counts against. */
export const bodyOwnerOf = ({ state: { caller } }: RequestContext): string =>
  caller?.accountId ?? PUBLIC;

/**
 * Receives the body of a request, and prepares it. Meanwhile the request has no place in the process, and its body counts
 * against the memory for bodies. The rest of a rejected body is discarded, so that the client reads the response and its
 * connection can be used again.
 * @param prepare given a signal, which is aborted if the body is dropped or its client disconnects, and what changes how
 * much memory it counts as
 * @throws HttpError body_too_large, request_malformed if the client disconnects, and what `prepare` throws
 * @throws DomainError queue_full
 */
export const receiveBody = <Result>(
  ctx: RequestContext,
  limitKib: number,
  prepare: (
    body: Buffer,
    memory: { readonly resize: BodyMemory["resize"]; readonly signal: AbortSignal },
  ) => Promise<Result>,
): Promise<Result> =>
  withoutPlace(ctx.req, async () => {
    const { req: request, res: response, state } = ctx;
    const header = request.headers["content-length"];
    const announcedBytes = header === undefined ? null : Number(header);
    if (announcedBytes !== null && announcedBytes > limitKib * 1024) {
      request.resume();
      throw bodyTooLarge(limitKib);
    }
    const gone = new AbortController();
    const add = state.caller ? addBodyOfAccount : addPublicBody;
    const { resize, free } = add(bodyOwnerOf(ctx), (error) => gone.abort(error));
    const disconnect = (): void =>
      gone.abort(new HttpError("request_malformed", "the client has disconnected"));
    try {
      const { signal } = gone;
      const body = await collect(request, { limitKib, announcedBytes, resize, signal });
      response.once("close", disconnect);
      if (response.destroyed) {
        disconnect();
      }
      return await prepare(body, { resize, signal });
    } finally {
      response.off("close", disconnect);
      free();
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
