import type { z } from "zod";
import type { Caller } from "../../db/accounts/apiKeys.ts";
import { DomainError } from "../../domain/errors.ts";
import type { ApiErrorCode } from "../../program/apiErrors.ts";
import type { ApiContext } from "./apiContext.ts";
import { bodyObject, queryObject } from "./fields.ts";
import { HttpError } from "./httpError.ts";
import { parseQuery, parseRequest } from "./parseRequest.ts";
import { streamJson } from "./streamJson.ts";

/** Something a client may meet beside the answer of success. */
export type ErrorResponse = {
  readonly code: ApiErrorCode;
  readonly when: string;
  /** A message as it is given. */
  readonly example: string;
  /** Headers that come with it and what they mean. */
  readonly headers?: Readonly<Record<string, string>>;
};

/** What the API description tells of an endpoint beside its schemas. */
type Description = {
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly details?: string;
  /** What stands for the parameters in the path. */
  readonly pathParameters?: Readonly<Record<string, string>>;
  readonly errors: readonly ErrorResponse[];
  /** Statuses other than 200 under which the answer has its usual shape, and when. */
  readonly otherStatuses?: Readonly<Record<number, string>>;
  /** Headers that the endpoint knows beside those of the key, and what they mean; all optional. */
  readonly requestHeaders?: Readonly<
    Record<string, { readonly description: string; readonly maxLength?: number }>
  >;
  /** Headers of the answer of success and what they mean. One with an ETag may be answered 304. */
  readonly responseHeaders?: Readonly<Record<string, string>>;
};

type Schemas<Query extends z.ZodType, Body extends z.ZodType, ResponseBody extends z.ZodType> = {
  readonly query?: Query;
  readonly body?: Body;
  readonly response: ResponseBody;
};

type Examples<Body extends z.ZodType, ResponseBody extends z.ZodType> = {
  readonly body?: z.input<Body>;
  readonly response: z.output<ResponseBody>;
};

/** One method of one path: what the description tells and what the router runs are the same. */
export type Endpoint = {
  readonly method: "get" | "post";
  /** With parameters as in `/evidence/tree/:id`. */
  readonly path: string;
  readonly access: "key" | "public";
  /** The message of a 401 where a missing key is told from a wrong one. */
  readonly missingKey?: string;
  /** How many requests of one key are taken within any second, by all processes together; absent for no limit. */
  readonly requestsPerSecond?: number;
  readonly description: Description;
  readonly schemas: Schemas<z.ZodType, z.ZodType, z.ZodType>;
  readonly examples: Examples<z.ZodType, z.ZodType>;
  readonly run: (ctx: ApiContext) => Promise<void>;
};

type Request<Query extends z.ZodType, Body extends z.ZodType> = {
  readonly ctx: ApiContext;
  readonly query: z.output<Query>;
  readonly body: z.output<Body>;
};

type Definition<
  Query extends z.ZodType,
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
> = Omit<Endpoint, "access" | "examples" | "run" | "schemas"> & {
  readonly schemas: Schemas<Query, Body, ResponseBody>;
  /** A request that works, and its answer. */
  readonly examples: Examples<Body, ResponseBody>;
  /** A refusal that comes before the body's schema has its say. */
  readonly refuseBody?: (body: unknown) => string | null;
};

/** What a body may hold where none is asked for. */
const NO_FIELDS = bodyObject({});
/** For endpoints without query parameters. */
const NO_PARAMETERS = queryObject({});

const wellFormed = (querystring: string): boolean => {
  try {
    decodeURIComponent(querystring);
    return true;
  } catch {
    return false;
  }
};

const readRequest = <
  Query extends z.ZodType,
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
>(
  { method, schemas, refuseBody }: Definition<Query, Body, ResponseBody>,
  ctx: ApiContext,
): Request<Query, Body> => {
  if (ctx.querystring !== "" && !wellFormed(ctx.querystring)) {
    throw new HttpError(
      "request_malformed",
      "the query string is not well-formed percent-encoded UTF-8",
    );
  }
  if (ctx.querystring !== "" && schemas.query === undefined) {
    parseQuery(NO_PARAMETERS, ctx.query);
  }
  const refusal = refuseBody?.(ctx.request.body) ?? null;
  if (refusal !== null) {
    throw new DomainError("request_invalid", refusal);
  }
  if (method === "post" && schemas.body === undefined) {
    parseRequest(NO_FIELDS, ctx.request.body, "field");
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- a handler without a schema is given undefined and its type says unknown.
  return {
    ctx,
    query: schemas.query && parseQuery(schemas.query, ctx.query),
    body: schemas.body && parseRequest(schemas.body, ctx.request.body, "field"),
  } as Request<Query, Body>;
};

const callerOf = (ctx: ApiContext): Caller => {
  if (ctx.state.caller === undefined) {
    throw new TypeError("The route runs without the authentication that its handler counts on.");
  }
  return ctx.state.caller;
};

const describe = <Query extends z.ZodType, Body extends z.ZodType, ResponseBody extends z.ZodType>({
  method,
  path,
  missingKey,
  requestsPerSecond,
  description,
  schemas,
  examples,
}: Definition<Query, Body, ResponseBody>): Omit<Endpoint, "access" | "run"> => ({
  method,
  path,
  ...(missingKey === undefined ? {} : { missingKey }),
  ...(requestsPerSecond === undefined ? {} : { requestsPerSecond }),
  description,
  schemas,
  examples,
});

/**
 * An endpoint for clients with a key. The compiler holds the answer to its schema; the tests hold real answers to the
 * schema in the API description. Parsing each answer again here would cost every request what only a bug needs.
 */
export const keyEndpoint = <
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
  Query extends z.ZodType = z.ZodType,
>(
  definition: Definition<Query, Body, ResponseBody> & {
    readonly handle: (
      request: Request<Query, Body> & { readonly caller: Caller },
    ) => Promise<z.output<ResponseBody>>;
  },
): Endpoint => ({
  ...describe(definition),
  access: "key",
  run: async (ctx) => {
    const caller = callerOf(ctx);
    ctx.body = await definition.handle({ ...readRequest(definition, ctx), caller });
  },
});

/**
 * An endpoint for clients with a key whose answer is JSON already, so that a repeat can be the same to the byte. A client
 * that has the text of the handler's ETag is told so.
 */
export const textKeyEndpoint = <
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
  Query extends z.ZodType = z.ZodType,
>(
  definition: Definition<Query, Body, ResponseBody> & {
    readonly handle: (
      request: Request<Query, Body> & { readonly caller: Caller },
    ) => Promise<string>;
  },
): Endpoint => ({
  ...describe(definition),
  access: "key",
  run: async (ctx) => {
    const caller = callerOf(ctx);
    ctx.body = await definition.handle({ ...readRequest(definition, ctx), caller });
    ctx.type = "application/json";
    if (ctx.fresh) {
      ctx.status = 304;
    }
  },
});

/** An endpoint for clients with a key whose answer may be too long to be held in memory. */
export const streamedKeyEndpoint = <Query extends z.ZodType, ResponseBody extends z.ZodType>(
  definition: Definition<Query, z.ZodType, ResponseBody> & {
    readonly handle: (
      request: Request<Query, z.ZodType> & { readonly caller: Caller },
    ) => AsyncIterable<string | Buffer>;
  },
): Endpoint => ({
  ...describe(definition),
  access: "key",
  run: async (ctx) => {
    const caller = callerOf(ctx);
    const request = readRequest(definition, ctx);
    if (ctx.method === "HEAD") {
      ctx.status = 200;
      ctx.type = "application/json";
      return;
    }
    await streamJson(ctx, definition.handle({ ...request, caller }));
  },
});

/** An endpoint that everybody may use. */
export const publicEndpoint = <ResponseBody extends z.ZodType>(
  definition: Definition<z.ZodType, z.ZodType, ResponseBody> & {
    readonly handle: (ctx: ApiContext) => Promise<z.output<ResponseBody>>;
  },
): Endpoint => ({
  ...describe(definition),
  access: "public",
  run: async (ctx) => {
    ctx.body = await definition.handle(ctx);
  },
});
