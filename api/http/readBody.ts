import { isUtf8 } from "node:buffer";
import { EventEmitter } from "node:events";
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Middleware } from "koa";
import bodyParser from "koa-bodyparser";
import { currentClient } from "../../runtime/client.ts";
import { Gate } from "../../runtime/gate.ts";
import { passOf } from "../../runtime/server/openDoor.ts";
import { HttpError } from "./httpError.ts";
import type { RequestContext, ApiState } from "./requestContext.ts";

export const BODY_KIB = 1024;

const malformed = (message: string, cause?: unknown): HttpError =>
  new HttpError("request_malformed", message, { cause });

/** The memory that the smallest chunk takes: a client may send a byte at a time. */
const CHUNK_BYTES = 512;

/**
 * Receives the body of a request, and uses it. Meanwhile the request has no place in the process, and holds the bytes of
 * its body. The rest of a rejected body is discarded, so that the client reads the response and its connection can be used
 * again.
 * @throws HttpError body_too_large, request_malformed if the client disconnects, and what `use` throws
 * @throws DomainError queue_full
 */
const receiveBody = async <Result>(
  request: IncomingMessage,
  limitKib: number,
  use: (body: Buffer) => Promise<Result> | Result,
): Promise<Result> => {
  const pass = passOf(request);
  const announcedBytes = Number(request.headers["content-length"] ?? 0);
  const arriving: AsyncIterable<unknown> = request.iterator({ destroyOnReturn: false });
  const chunks: Buffer[] = [];
  let bytes = 0;
  const hold = (): void => {
    if (Math.max(bytes, announcedBytes) > limitKib * 1024) {
      throw new HttpError("body_too_large", `the body must be at most ${limitKib} KiB`);
    }
    pass?.gate.hold(pass, Math.max(announcedBytes, bytes, chunks.length * CHUNK_BYTES));
  };
  pass?.gate.leave(pass);
  try {
    hold();
    for await (const chunk of arriving) {
      if (Buffer.isBuffer(chunk)) {
        chunks.push(chunk);
        bytes += chunk.length;
        hold();
      }
    }
    return await use(Buffer.concat(chunks));
  } catch (error) {
    throw request.errored ? malformed("the body ended before its announced length", error) : error;
  } finally {
    pass?.gate.hold(pass, 0);
    // It has had its turn.
    pass?.gate.retake(pass);
    request.resume();
  }
};

/**
 * Rejects a body that is not UTF-8. A decoder would replace its invalid bytes, and the replacements would be stored.
 * @throws HttpError request_malformed
 */
const requireUtf8 = (body: Buffer): void => {
  if (!isUtf8(body)) {
    throw malformed("the body is not valid UTF-8");
  }
};

/**
 * Reads a body whose signature covers its bytes.
 * @throws HttpError body_too_large, request_malformed
 */
export const readRawBody = ({ req }: RequestContext, limitKib: number): Promise<string> =>
  receiveBody(req, limitKib, (body) => {
    requireUtf8(body);
    return body.toString("utf8");
  });

/**
 * Parses a body whose signature was checked.
 * @throws HttpError request_malformed
 */
export const parseSignedJson = (body: string): unknown => {
  try {
    return JSON.parse(body);
  } catch (cause) {
    throw malformed("the body is not valid JSON", cause);
  }
};

const TOKEN = "[!#$%&'*+.^_`|~\\w-]+";
const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
/** In quotes, any character may have a backslash before it. */
const UTF_8 = String.raw`(?:utf-?8|"\\?u\\?t\\?f(?:\\?-)?\\?8")`;
const EQUALS = "[ \\t]*=[ \\t]*";
const PARAMETER = `(?:charset${EQUALS}${UTF_8}|(?!charset${EQUALS})${TOKEN}${EQUALS}(?:${TOKEN}|${QUOTED}))`;

/** In any spelling and with any other parameters. Matches in linear time, which Node's MIMEType does not. */
const JSON_IN_UTF_8 = new RegExp(
  `^application/json(?:[ \\t]*;(?:[ \\t]*${PARAMETER})?)*[ \\t]*$`,
  "iu",
);

/** @throws HttpError request_malformed */
const requireJson = (headers: IncomingHttpHeaders): void => {
  const { "content-type": type = "", "content-encoding": coding = "identity" } = headers;
  if (!JSON_IN_UTF_8.test(type)) {
    throw malformed(
      "the body must be JSON in UTF-8, sent with the header Content-Type: application/json",
    );
  }
  if (coding.toLowerCase() !== "identity") {
    throw malformed("the body must not be compressed");
  }
};

/** Parsing a longer body can take as long as tens of other requests. */
const LONG_BODY_BYTES = 24 * 1024;

/** Of both interfaces. */
const longBodies = new Gate({ places: 1 });

/**
 * Waits until no other long body is parsed, because that can take as long as hundreds of requests. Clients take turns.
 * @returns what ends the turn, and must be called. As much time as the turn took is left to other requests.
 * @throws DomainError queue_full, request_invalid if the client disconnects
 */
export const takeTurnOfLongBody = async (response: ServerResponse): Promise<() => void> => {
  const pass = longBodies.enter(currentClient());
  if (!pass.isRunning) {
    const turn = longBodies.wait(pass);
    const leave = (): void => longBodies.end(pass);
    response.once("close", leave);
    if (response.destroyed) {
      leave();
    }
    try {
      await turn;
    } finally {
      response.off("close", leave);
    }
  }
  const beganAtMs = performance.now();
  return () => {
    setTimeout(() => longBodies.end(pass), performance.now() - beganAtMs);
  };
};

const EMPTY = Buffer.alloc(0);

/** Returns a body that has been received as what the parser reads: a request with no headers that says anything of it. */
const streamOf = (body: Buffer): EventEmitter => {
  const stream = Object.assign(new EventEmitter(), { headers: {} });
  // A stream of Node's would cost more than to parse the body. The parser listens by then.
  void Promise.resolve().then(() => stream.emit("data", body) && stream.emit("end"));
  return stream;
};

const done = (): Promise<void> => Promise.resolve();

/** Parses a JSON body of limited size; a request without a body has an empty object. */
export const readBody = (limitKib: number): Middleware<ApiState> => {
  const options = {
    enableTypes: ["json"],
    // The type was checked by requireJson, which accepts more spellings.
    detectJSON: () => true,
    jsonLimit: `${limitKib}kb`,
    // Such a name is an unknown field, and validated in metadata.
    onProtoPoisoning: "ignore",
    onerror: (error: Error) => {
      throw malformed(`the body is not a valid JSON object: ${error.message}`, error);
    },
  };
  const parser = bodyParser(options);
  const parse = ({ request }: RequestContext, body: Buffer): Promise<unknown> => {
    requireUtf8(body);
    // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the parser uses nothing else of a context.
    return parser({ request, req: streamOf(body) } as unknown as RequestContext, done);
  };
  return async (ctx, next) => {
    const { req, res } = ctx;
    const isChunked = req.headers["transfer-encoding"] !== undefined;
    const announced = Number(req.headers["content-length"] ?? 0);
    if (isChunked || announced > 0) {
      requireJson(req.headers);
    }
    if (!isChunked && announced <= LONG_BODY_BYTES) {
      if (!req.complete) {
        // Most bodies arrive with their headers: then Node has parsed them in this turn of the event loop.
        await nextTurn();
      }
      if (req.complete) {
        const received: unknown = req.read();
        await parse(ctx, Buffer.isBuffer(received) ? received : EMPTY);
        await next();
        return;
      }
    }
    const endTurn = await receiveBody(req, limitKib, async (body) => {
      const end = body.length > LONG_BODY_BYTES ? await takeTurnOfLongBody(res) : () => {};
      try {
        await parse(ctx, body);
        return end;
      } catch (error) {
        end();
        throw error;
      }
    });
    try {
      // What follows at once, the validation, belongs to the turn.
      return next();
    } finally {
      endTurn();
    }
  };
};
