import type { z } from "zod";
import type { Caller } from "../../modules/accounts/apiKeys.sql.ts";
import { accountModeOf } from "../../modules/records/owner.rules.ts";
import type { AccountMode } from "../../modules/records/owner.rules.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { ApiErrorCode } from "../../runtime/errorStatus.ts";
import type { ERROR_MEANINGS } from "../openapi/errorMeanings.ts";
import type { RequestContext } from "./requestContext.ts";
import { findWrongKey, hasIdempotencyKeyField, withHeaderKey } from "./idempotencyKey.ts";
import { parseBody, parseQuery } from "./parseRequest.ts";

export const JSON_TYPE = "application/json; charset=utf-8";

/** Returns whether the client has the response whose ETag is set. A proxy that compresses makes an ETag a weak one. */
export const isFresh = ({ req, res }: RequestContext): boolean => {
  const given = req.headers["if-none-match"]?.split(",") ?? [];
  const etag = res.getHeader("ETag");
  return (
    typeof etag === "string" && given.some((each) => ["*", etag, `W/${etag}`].includes(each.trim()))
  );
};

/** A documented error of an endpoint; with when it returns it, if the code's general meaning would mislead. */
export type DocumentedError =
  | keyof typeof ERROR_MEANINGS
  | readonly [code: ApiErrorCode, meaning: string];

/** What the API description says about an endpoint in addition to its schemas. */
export type Description = {
  readonly operationId: string;
  readonly tag: string;
  readonly summary: string;
  readonly details?: string;
  readonly pathParameters?: Readonly<Record<string, string>>;
  /** Its errors besides those of every endpoint that is like it, or instead of them. */
  readonly errors?: readonly DocumentedError[];
  /** The bodies of errors that have more than the message. */
  readonly errorBodies?: Readonly<Partial<Record<ApiErrorCode, z.ZodType>>>;
  /** What the header Idempotency-Key does, where it does not stand in for a field of the body. */
  readonly idempotencyKey?: string;
  /** Whether the response is a list that is also exported as CSV and NDJSON. */
  readonly isExported?: boolean;
  /** Headers of a successful response and what they mean. An endpoint with an ETag may respond 304. */
  readonly responseHeaders?: Readonly<Record<string, string>>;
  /** What the service sends to the client's server because of this request. */
  readonly callback?: Callback;
};

export type Callback = {
  readonly operationId: string;
  /** The field of the request's body that has the URL. */
  readonly urlField: string;
  readonly summary: string;
  readonly description: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly schema: z.ZodType;
};

type Schemas<Query extends z.ZodType, Body extends z.ZodType, ResponseBody extends z.ZodType> = {
  readonly query?: Query;
  readonly body?: Body;
  readonly response: ResponseBody;
};

/** One method of one path, for clients with a key. The router runs it and the API description is generated from it. */
export type Endpoint = Description & {
  /** All but `get` need a key that may write. */
  readonly method: "get" | "post" | "delete";
  /** With parameters as in `/evidence/tree/:id`. */
  readonly path: string;
  /** The message of a 401 for a missing key, where it differs from the response to a wrong one. */
  readonly missingKey?: string;
  /** How many requests of one key are accepted in any second by all processes together; absent for no limit. */
  readonly requestsPerSecond?: number;
  /** Whether the body is a batch, which may be larger and is limited by its items. */
  readonly isBatch?: boolean;
  readonly schemas: Schemas<z.ZodType, z.ZodType, z.ZodType>;
  readonly example?: unknown;
  readonly run: (ctx: RequestContext, caller: Caller) => Promise<void>;
};

type Request<Query extends z.ZodType, Body extends z.ZodType> = {
  readonly ctx: RequestContext;
  readonly caller: Caller;
  readonly owner: AccountMode;
  readonly query: z.output<Query>;
  readonly body: z.output<Body>;
};

/** An endpoint without its method and path; `Result` is what its handler returns. */
export type Definition<
  Query extends z.ZodType,
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
  Result,
> = Omit<Endpoint, "method" | "path" | "example" | "run" | "schemas"> & {
  readonly schemas: Schemas<Query, Body, ResponseBody>;
  readonly example?: z.input<Body>;
  /** Checks the body before its schema does; returns the message of a 400, or null. */
  readonly checkBody?: (body: unknown) => string | null;
  readonly handle: (request: Request<Query, Body>) => Result;
};

/**
 * Defines an endpoint for clients with a key. The compiler checks the handler's result against the schema, and the tests
 * check real responses against the API description, so responses are not parsed again at run time. A handler may return
 * JSON text, so that a replay can be byte-identical; if it sets an ETag that matches the request's If-None-Match, the
 * response is a 304. One that returns null has responded itself.
 */
export const keyEndpoint = <
  Body extends z.ZodType,
  ResponseBody extends z.ZodType,
  Query extends z.ZodType = z.ZodType,
>(
  method: Endpoint["method"],
  path: string,
  {
    handle,
    checkBody = () => null,
    ...endpoint
  }: Definition<Query, Body, ResponseBody, Promise<z.output<ResponseBody> | string | null>>,
): Endpoint => {
  const { schemas } = endpoint;
  const hasKeyField = hasIdempotencyKeyField(schemas.body);
  return {
    ...endpoint,
    method,
    path,
    run: async (ctx, caller) => {
      const given = ctx.request.body;
      const problem = checkBody(given) ?? (hasKeyField ? findWrongKey(given) : null);
      if (problem !== null) {
        throw invalidRequest(problem);
      }
      const body = hasKeyField ? withHeaderKey(ctx, given) : given;
      // What is not used of a long body is not in memory while the request waits for the database.
      ctx.request.rawBody = "";
      ctx.request.body = undefined;
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- without a schema the type of the value is unknown.
      const request = {
        ctx,
        caller,
        owner: accountModeOf(caller),
        query: schemas.query && parseQuery(schemas.query, ctx.querystring),
        body: schemas.body && parseBody(schemas.body, body),
      } as Request<Query, Body>;
      const result = await handle(request);
      if (result !== null) {
        ctx.res.setHeader("Content-Type", JSON_TYPE);
        ctx.body = typeof result === "string" ? result : JSON.stringify(result);
        if (isFresh(ctx)) {
          ctx.status = 304;
        }
      }
    },
  };
};
