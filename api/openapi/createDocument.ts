import { z } from "zod";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { EXPORT_FORMATS } from "../../runtime/formatRows.ts";
import { ERROR_STATUS } from "../../runtime/errorStatus.ts";
import type { PresentError } from "../../runtime/errorStatus.ts";
import { BODY_KIB } from "../http/readBody.ts";
import { READ_ONLY_MESSAGE } from "../http/authenticate.ts";
import { RETRY_AFTER } from "../http/endpoint.ts";
import type { Callback, Endpoint, ErrorResponse } from "../http/endpoint.ts";
import { createSchemaCollector } from "./describeSchema.ts";
import type { Collect, Json } from "./describeSchema.ts";
import { hasIdempotencyKeyField } from "../http/idempotencyKey.ts";

/** The parts of an API description that do not come from endpoints. */
export type DocumentInfo = {
  readonly title: string;
  readonly version: string;
  readonly description: string;
  /** The interface's base URL; `/` if the program does not know its public URL. */
  readonly baseUrl: string;
  /** The headers that authenticate a request, by scheme name. */
  readonly securitySchemes: Readonly<
    Record<string, { readonly header: string; readonly description: string }>
  >;
  /** The alternatives, each with the schemes that it requires together. */
  readonly security: readonly (readonly string[])[];
  /** The body of every error response. */
  readonly errorBody: z.ZodType;
  readonly presentError: PresentError;
};

const parametersOf = (query: z.ZodType | undefined, collect: Collect): readonly Json[] => {
  if (query === undefined) {
    return [];
  }
  const { properties, required } = z
    .object({
      properties: z.record(z.string(), z.looseObject({ description: z.string() })),
      required: z.array(z.string()).default([]),
    })
    .parse(collect(query, "input"));
  return Object.entries(properties).map(([name, { description, ...schema }]) => ({
    name,
    in: "query",
    description,
    required: required.includes(name),
    schema,
  }));
};

const pathParametersOf = (parameters: Readonly<Record<string, string>> = {}): readonly Json[] =>
  Object.entries(parameters).map(([name, description]) => ({
    name,
    in: "path",
    description,
    required: true,
    schema: { type: "string", minLength: 1 },
  }));

const headerParametersOf = (
  headers: Endpoint["description"]["requestHeaders"] = {},
): readonly Json[] =>
  Object.entries(headers).map(([name, { description, ...limits }]) => ({
    name,
    in: "header",
    description,
    required: false,
    schema: { type: "string", ...limits },
  }));

const IDEMPOTENCY_KEY_HEADER = {
  "Idempotency-Key": {
    description:
      "Means the same as the field idempotency_key of the body. If both are given, they must be equal.",
    maxLength: SHORT_TEXT_LENGTH,
  },
};

const jsonContent = (schema: Json, example?: unknown): Json => ({
  "application/json": { schema, ...(example === undefined ? {} : { example }) },
});

/** The other formats of a list. */
const FILES = Object.fromEntries(
  (["csv", "ndjson"] as const).map((format) => [
    EXPORT_FORMATS[format].mediaType,
    { schema: { type: "string" } },
  ]),
);

const BODY_TOO_LARGE: ErrorResponse = {
  code: "body_too_large",
  when: "The body is too large.",
  example: `the body must be at most ${BODY_KIB} KiB`,
};

/** The error of an endpoint that limits the requests of a key. */
const rateExceeded = (requestsPerSecond: number): ErrorResponse => ({
  code: "rate_limited",
  when: `The key sent more than ${counted(requestsPerSecond, "request")} to this endpoint within a second.`,
  example: "rate limit exceeded",
  headers: RETRY_AFTER,
});

const READ_ONLY_KEY: ErrorResponse = {
  code: "key_read_only",
  when: "The key is read-only.",
  example: READ_ONLY_MESSAGE,
};

const internalError = (when: string): ErrorResponse => ({
  code: "internal_error",
  when,
  example: "internal server error",
});

const SERVICE_UNAVAILABLE: ErrorResponse = {
  code: "service_unavailable",
  when: "The database cannot be reached, or the process is full; nothing was done. Try again.",
  example: "the service is temporarily unavailable, try again",
  headers: RETRY_AFTER,
};

/** Errors that every endpoint with this method and access may return, besides those of HTTP itself. */
const commonErrors = ({
  access,
  method,
  requestsPerSecond,
}: Endpoint): readonly ErrorResponse[] => [
  // A body is read even if the endpoint accepts none.
  ...(method === "post" ? [BODY_TOO_LARGE] : []),
  ...(access === "public"
    ? []
    : [
        SERVICE_UNAVAILABLE,
        ...(requestsPerSecond === undefined ? [] : [rateExceeded(requestsPerSecond)]),
        internalError(
          method === "post"
            ? "An unexpected error, such as a database connection that is lost during the commit: the write may have " +
                "been recorded. Where the call takes an idempotency key, repeat it with the same key. Report the " +
                "X-Request-Id to the operator."
            : "An unexpected error. Report the X-Request-Id to the operator.",
        ),
      ]),
];

/** Merges the errors that have the same status. */
const byStatus = (errors: readonly ErrorResponse[]): ReadonlyMap<number, ErrorResponse> => {
  const merged = new Map<number, ErrorResponse>();
  for (const error of errors) {
    const status = ERROR_STATUS[error.code];
    const earlier = merged.get(status);
    merged.set(
      status,
      earlier
        ? {
            ...earlier,
            when: `${earlier.when} ${error.when}`,
            headers: { ...earlier.headers, ...error.headers },
          }
        : error,
    );
  }
  return merged;
};

const REQUEST_ID_HEADER = {
  "X-Request-Id": {
    description:
      "Identifies the request in the service's log: the id that the client sent, or a new one.",
    schema: { type: "string" },
  },
};

const headersOf = (headers: Readonly<Record<string, string>> = {}): Json => ({
  ...REQUEST_ID_HEADER,
  ...Object.fromEntries(
    Object.entries(headers).map(([name, description]) => [
      name,
      { description, schema: { type: "string" } },
    ]),
  ),
});

const responsesOf = (
  endpoint: Endpoint,
  { presentError, errorBody }: DocumentInfo,
  collect: Collect,
): Json => {
  const { description, schemas } = endpoint;
  const content = {
    ...jsonContent(collect(schemas.response, "output")),
    ...(description.isExported === true && FILES),
  };
  const errorSchema = collect(errorBody, "output");
  const ownErrors = [
    ...description.errors,
    ...(endpoint.access === "write" ? [READ_ONLY_KEY] : []),
  ];
  // An endpoint's own description of a status replaces the common one.
  const errors = new Map([...byStatus(commonErrors(endpoint)), ...byStatus(ownErrors)]);
  return {
    200: {
      description: "Success.",
      headers: headersOf(description.responseHeaders),
      content,
    },
    ...(description.responseHeaders?.["ETag"] === undefined
      ? {}
      : {
          304: {
            description: "Not modified: the ETag in If-None-Match is current. There is no body.",
            headers: headersOf(),
          },
        }),
    ...Object.fromEntries(
      [...errors].map(([status, { code, when, example, body, headers }]) => [
        status,
        {
          description: when,
          headers: headersOf(headers),
          content: body
            ? jsonContent(collect(body.schema, "output"), body.example)
            : jsonContent(errorSchema, presentError(code, example)),
        },
      ]),
    ),
    default: {
      description:
        "An error of HTTP itself: a malformed request is a 400, one that does not arrive in time a 408, an `Expect` other " +
        "than `100-continue` a 417, headers of more than 16 KiB a 431.",
      headers: headersOf(),
      content: jsonContent(errorSchema),
    },
  };
};

/**
 * Returns the callbacks of an operation. They are not in `webhooks`, because a generator leaves out the schemas that only
 * those refer to.
 */
const describeCallback = (
  { operationId, urlField, summary, description, headers, schema, example }: Callback,
  collect: Collect,
): Json => ({
  [operationId]: {
    [`{$request.body#/${urlField}}`]: {
      post: {
        operationId,
        summary,
        description,
        security: [],
        parameters: Object.entries(headers).map(([name, meaning]) => ({
          name,
          in: "header",
          description: meaning,
          required: true,
          schema: { type: "string" },
        })),
        requestBody: {
          required: true,
          content: { "application/json": { schema: collect(schema, "output"), example } },
        },
        responses: { "2XX": { description: "The event was received." } },
      },
    },
  },
});

const operationOf = (endpoint: Endpoint, info: DocumentInfo, collect: Collect): Json => {
  const { access, description, schemas, example } = endpoint;
  const parameters = [
    ...pathParametersOf(description.pathParameters),
    ...parametersOf(schemas.query, collect),
    ...headerParametersOf({
      ...(hasIdempotencyKeyField(schemas.body) ? IDEMPOTENCY_KEY_HEADER : {}),
      ...description.requestHeaders,
    }),
  ];
  return {
    operationId: description.operationId,
    tags: [description.tag],
    summary: description.summary,
    ...(description.details === undefined ? {} : { description: description.details }),
    ...(access === "public" ? { security: [] } : {}),
    ...(parameters.length === 0 ? {} : { parameters }),
    ...(schemas.body === undefined
      ? {}
      : {
          requestBody: {
            // A request without a body has an empty object.
            required: !schemas.body.safeParse({}).success,
            content: jsonContent(collect(schemas.body, "input"), example),
          },
        }),
    responses: responsesOf(endpoint, info, collect),
    ...(description.callback === undefined
      ? {}
      : { callbacks: describeCallback(description.callback, collect) }),
  };
};

const pathsOf = (endpoints: readonly Endpoint[], info: DocumentInfo, collect: Collect): Json => {
  const paths: Record<string, Record<string, Json>> = {};
  for (const endpoint of endpoints) {
    const path = endpoint.path.replaceAll(/:(\w+)/gu, "{$1}");
    paths[path] = {
      ...paths[path],
      [endpoint.method]: operationOf(endpoint, info, collect),
    };
  }
  return paths;
};

/** Creates the OpenAPI 3.1 document of an interface from its endpoints. */
export const createDocument = (endpoints: readonly Endpoint[], info: DocumentInfo): Json => {
  const { components, collect } = createSchemaCollector();
  const paths = pathsOf(endpoints, info, collect);
  const { title, version, description, baseUrl, securitySchemes, security } = info;
  return {
    openapi: "3.1.1",
    info: { title, version, description, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: baseUrl }],
    security: security.map((names) => Object.fromEntries(names.map((name) => [name, []]))),
    tags: [...new Set(endpoints.map((endpoint) => endpoint.description.tag))].map((name) => ({
      name,
    })),
    paths,
    components: {
      schemas: components,
      securitySchemes: Object.fromEntries(
        Object.entries(securitySchemes).map(([scheme, { header, description: meaning }]) => [
          scheme,
          { type: "apiKey", in: "header", name: header, description: meaning },
        ]),
      ),
    },
  };
};
