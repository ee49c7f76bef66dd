import type { ServerResponse } from "node:http";
import { Readable } from "node:stream";
import { promisify } from "node:util";
import { brotliDecompress, unzip } from "node:zlib";
import type { Middleware } from "koa";
import bodyParser from "koa-bodyparser";
import type { RequestContext, ApiState } from "./requestContext.ts";
import { HttpError } from "./httpError.ts";
import { requireUtf8, bodyTooLarge, receiveBody } from "./receiveBody.ts";
import { holdBytes } from "../../runtime/server/openDoor.ts";
import { currentClient } from "../../runtime/client.ts";
import { Gate } from "../../runtime/gate.ts";

const TOKEN = "[!#$%&'*+.^_`|~\\w-]+";
const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
/** In quotes, any character may have a backslash before it. */
const UTF_8 = String.raw`(?:utf-?8|"\\?u\\?t\\?f(?:\\?-)?\\?8")`;
const EQUALS = "[ \\t]*=[ \\t]*";
const PARAMETER = `(?:charset${EQUALS}${UTF_8}|(?!charset${EQUALS})${TOKEN}${EQUALS}(?:${TOKEN}|${QUOTED}))`;

/** Parameters may be empty. Matches in time proportional to the header's length. */
const JSON_IN_UTF_8 = new RegExp(
  `^application/json(?:[ \\t]*;(?:[ \\t]*${PARAMETER})?)*[ \\t]*$`,
  "iu",
);

/** Returns whether a Content-Type is `application/json` in UTF-8, in any spelling and with any other parameters. */
export const isJsonInUtf8 = (header: string): boolean => JSON_IN_UTF_8.test(header);

/** The largest body of a request. */
export const BODY_KIB = 1024;

const asHttpError = (error: Error & { type?: string }): HttpError =>
  error.type === "request.aborted" || error.type === "request.size.invalid"
    ? new HttpError("request_malformed", "the body ended before its announced length", {
        cause: error,
      })
    : new HttpError("request_malformed", `the body is not a valid JSON object: ${error.message}`, {
        cause: error,
      });

const requireJson = (contentType: string | undefined, hasBody: boolean): void => {
  if (hasBody && (contentType === undefined || !isJsonInUtf8(contentType))) {
    throw new HttpError(
      "request_malformed",
      "the body must be JSON in UTF-8, sent with the header Content-Type: application/json",
    );
  }
};

const inflate = promisify(unzip);

/** By content coding in lower case. */
const DECODERS: ReadonlyMap<string, typeof inflate> = new Map([
  ["gzip", inflate],
  ["x-gzip", inflate],
  ["deflate", inflate],
  ["br", promisify(brotliDecompress)],
]);

const cannotBeRead = (reason: string, cause?: unknown): HttpError =>
  new HttpError("request_malformed", `the body cannot be read: ${reason}`, { cause });

/**
 * Returns what decompresses a body with this Content-Encoding; null if it is not compressed.
 * @throws HttpError request_malformed
 */
const decoderOf = (header = ""): typeof inflate | null => {
  const [coding, ...more] = header
    .toLowerCase()
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "" && name !== "identity");
  if (coding === undefined) {
    return null;
  }
  const decode = DECODERS.get(coding);
  if (decode === undefined || more.length > 0) {
    throw cannotBeRead("unsupported Content-Encoding; supported: one of gzip, deflate and br");
  }
  return decode;
};

/**
 * Returns null if the body is longer.
 * @throws HttpError request_malformed
 */
const decompress = async (
  body: Buffer,
  decode: typeof inflate,
  maximumBytes: number,
): Promise<Buffer | null> => {
  try {
    return await decode(body, { maxOutputLength: maximumBytes });
  } catch (error) {
    if (error instanceof RangeError) {
      return null;
    }
    throw cannotBeRead(error instanceof Error ? error.message : String(error), error);
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

/**
 * Returns a received body without its content coding. A long one waits for its turn first.
 * @returns `endTurn` must be called
 * @throws HttpError body_too_large, request_malformed
 * @throws DomainError queue_full
 */
const takeTurnIfLong = async (
  received: Buffer,
  {
    decode,
    limitKib,
    hold,
    response,
  }: {
    readonly decode: typeof inflate | null;
    readonly limitKib: number;
    readonly hold: (bytes: number) => void;
    readonly response: ServerResponse;
  },
): Promise<{ readonly body: Buffer; readonly endTurn: () => void }> => {
  const maximumBytes = limitKib * 1024;
  if (decode !== null) {
    hold(received.length + LONG_BODY_BYTES);
  }
  const short = decode === null ? received : await decompress(received, decode, LONG_BODY_BYTES);
  if (short !== null && short.length <= LONG_BODY_BYTES) {
    return { body: short, endTurn: () => {} };
  }
  const endTurn = await takeTurnOfLongBody(response);
  try {
    if (short !== null || decode === null) {
      return { body: received, endTurn };
    }
    hold(received.length + maximumBytes);
    const body = await decompress(received, decode, maximumBytes);
    if (body === null) {
      throw bodyTooLarge(limitKib);
    }
    return { body, endTurn };
  } catch (error) {
    endTurn();
    throw error;
  }
};

/** Returns the context of the same request with a body that has been received. */
const withBody = (ctx: RequestContext, body: Buffer): RequestContext => {
  const req = Object.assign(Readable.from([body]), { headers: {} });
  return Object.create(ctx, { req: { value: req } });
};

/** Most bodies arrive with their headers: then Node has parsed them in this turn of the event loop. */
const nextTurn = (): Promise<void> =>
  new Promise((resolve) => {
    setImmediate(resolve);
  });

/** Parses a JSON body of limited size; a request without a body has an empty object. */
export const readBody = (limitKib: number): Middleware<ApiState> => {
  const parse = bodyParser({
    enableTypes: ["json"],
    // The type was checked by requireJson, which accepts more spellings.
    detectJSON: () => true,
    jsonLimit: `${limitKib}kb`,
    onerror: (error) => {
      throw asHttpError(error);
    },
  });
  return async (ctx, next) => {
    const { headers } = ctx.req;
    const isChunked = headers["transfer-encoding"] !== undefined;
    const announced = Number(headers["content-length"] ?? 0);
    const hasBody = isChunked || announced > 0;
    requireJson(headers["content-type"], hasBody);
    const coding = headers["content-encoding"];
    if (coding === undefined && !isChunked && announced <= LONG_BODY_BYTES) {
      if (!ctx.req.complete) {
        await nextTurn();
      }
      if (ctx.req.complete) {
        const received: unknown = ctx.req.read();
        if (Buffer.isBuffer(received)) {
          requireUtf8(received);
          ctx.req.unshift(received);
        }
        return parse(ctx, next);
      }
    }
    const decode = hasBody ? decoderOf(coding) : null;
    const parseReceived = async (): Promise<() => void> => {
      const { body, endTurn } = await receiveBody(ctx, limitKib, (received) =>
        takeTurnIfLong(received, {
          decode,
          limitKib,
          hold: (bytes) => holdBytes(ctx.req, bytes),
          response: ctx.res,
        }),
      );
      try {
        requireUtf8(body);
        await parse(withBody(ctx, body), () => Promise.resolve());
      } catch (error) {
        endTurn();
        throw error;
      }
      return endTurn;
    };
    // The received bytes are not referenced any more while the request waits for the database.
    const endTurn = await parseReceived();
    try {
      return next();
    } finally {
      endTurn();
    }
  };
};
