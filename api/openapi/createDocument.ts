import { z } from "zod";
import { SHORT_TEXT_LENGTH } from "../../modules/records/fields.rules.ts";
import { counted } from "../../runtime/counted.rules.ts";
import { EXPORT_FORMATS } from "../../runtime/formatRows.ts";
import { ERROR_STATUS } from "../../runtime/errorStatus.ts";
import type { Callback, DocumentedError, Endpoint } from "../http/endpoint.ts";
import { ERROR_MEANINGS } from "./errorMeanings.ts";
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
  readonly errorBody: z.ZodType;
  readonly keyErrors: readonly DocumentedError[];
};

const TEXT: Json = { type: "string" };

const parameterOf = (
  place: "query" | "path" | "header",
  name: string,
  description: string,
  { required, schema = TEXT }: { readonly required: boolean; readonly schema?: Json },
): Json => ({ name, in: place, description, required, schema });

const queryParametersOf = (query: z.ZodType | undefined, collect: Collect): readonly Json[] =>
  Object.entries(query instanceof z.ZodObject ? query.shape : {}).map(([name, parameter]) => {
    const { description, ...schema } = collect(parameter, "input");
    const required = !z.safeParse(parameter, undefined).success;
    return parameterOf("query", name, String(description), { required, schema });
  });

/** Describes the header Idempotency-Key, if an endpoint takes it. */
const keyParametersOf = ({ schemas, idempotencyKey }: Endpoint): readonly Json[] => {
  const meaning = hasIdempotencyKeyField(schemas.body)
    ? "Means the same as the field idempotency_key of the body. If both are given, they must be equal."
    : idempotencyKey;
  const schema = { ...TEXT, maxLength: SHORT_TEXT_LENGTH };
  return meaning === undefined
    ? []
    : [parameterOf("header", "Idempotency-Key", meaning, { required: false, schema })];
};

const jsonContent = (schema: Json, example?: unknown): Json => ({
  "application/json": { schema, example },
});

/** The other formats of a list. */
const FILES = {
  [EXPORT_FORMATS.csv.mediaType]: { schema: TEXT },
  [EXPORT_FORMATS.ndjson.mediaType]: { schema: TEXT },
};

/** Lists the errors of an endpoint besides those of HTTP itself. A later entry takes the place of one with its code. */
const errorsOf = (
  { method, missingKey, requestsPerSecond, schemas, errors = [] }: Endpoint,
  keyErrors: readonly DocumentedError[],
): readonly DocumentedError[] => {
  const all: readonly (DocumentedError | null)[] = [
    schemas.query || schemas.body ? "request_invalid" : null,
    ...keyErrors,
    missingKey === undefined ? null : "key_missing",
    method === "get" ? null : "key_read_only",
    // A body is read even if the endpoint accepts none.
    method === "post" ? "body_too_large" : null,
    requestsPerSecond === undefined
      ? null
      : [
          "rate_limited",
          `The key sent more than ${counted(requestsPerSecond, "request")} to this endpoint within a second.`,
        ],
    "service_unavailable",
    "internal_error",
    ...errors,
  ];
  return all.filter((error) => error !== null);
};

const REQUEST_ID_HEADER = {
  "X-Request-Id":
    "Identifies the request in the service's log: the id that the client sent, or a new one.",
};

const headersOf = (headers: Readonly<Record<string, string>> = {}): Json =>
  Object.fromEntries(
    Object.entries({ ...REQUEST_ID_HEADER, ...headers }).map(([name, description]) => [
      name,
      { description, schema: TEXT },
    ]),
  );

/** Describes the errors that have the same status as one response. */
const errorResponsesOf = (
  endpoint: Endpoint,
  { errorBody, keyErrors }: DocumentInfo,
  collect: Collect,
): Json => {
  const { errorBodies = {} } = endpoint;
  const meanings = new Map(
    errorsOf(endpoint, keyErrors).map((error) =>
      typeof error === "string" ? ([error, ERROR_MEANINGS[error]] as const) : error,
    ),
  );
  const responses = Array.from(
    Map.groupBy(meanings, ([code]) => ERROR_STATUS[code]),
    ([status, same]) => {
      const body = same.map(([code]) => errorBodies[code]).find(Boolean);
      const isRetried = body === undefined && (status === 429 || status === 503);
      const response = {
        description: same.map(([, when]) => when).join(" "),
        headers: headersOf(isRetried ? { "Retry-After": "Seconds to wait." } : {}),
        content: jsonContent(collect(body ?? errorBody, "output")),
      };
      return [status, response];
    },
  );
  return Object.fromEntries(responses);
};

const responsesOf = (endpoint: Endpoint, info: DocumentInfo, collect: Collect): Json => {
  const { responseHeaders, isExported, schemas } = endpoint;
  return {
    200: {
      description: "Success.",
      headers: headersOf(responseHeaders),
      content: { ...jsonContent(collect(schemas.response, "output")), ...(isExported && FILES) },
    },
    304: responseHeaders?.["ETag"] && {
      description: "Not modified: the ETag in If-None-Match is current. There is no body.",
      headers: headersOf(),
    },
    ...errorResponsesOf(endpoint, info, collect),
    default: {
      description:
        "An error of HTTP itself: a malformed request is a 400, one that does not arrive in time a 408, an `Expect` other " +
        "than `100-continue` a 417, headers of more than 16 KiB a 431.",
      headers: headersOf(),
      content: jsonContent(collect(info.errorBody, "output")),
    },
  };
};

/**
 * Returns the callbacks of an operation. They are not in `webhooks`, because a generator leaves out the schemas that only
 * those refer to.
 */
const describeCallback = (
  { operationId, urlField, summary, description, headers, schema }: Callback,
  collect: Collect,
): Json => ({
  [operationId]: {
    [`{$request.body#/${urlField}}`]: {
      post: {
        operationId,
        summary,
        description,
        security: [],
        parameters: Object.entries(headers).map(([name, meaning]) =>
          parameterOf("header", name, meaning, { required: true }),
        ),
        requestBody: { required: true, content: jsonContent(collect(schema, "output")) },
        responses: { "2XX": { description: "The event was received." } },
      },
    },
  },
});

const operationOf = (endpoint: Endpoint, info: DocumentInfo, collect: Collect): Json => {
  const { schemas, details, callback, pathParameters = {} } = endpoint;
  const parameters = [
    ...Object.entries(pathParameters).map(([name, meaning]) =>
      parameterOf("path", name, meaning, { required: true, schema: { ...TEXT, minLength: 1 } }),
    ),
    ...queryParametersOf(schemas.query, collect),
    ...keyParametersOf(endpoint),
  ];
  return {
    operationId: endpoint.operationId,
    tags: [endpoint.tag],
    summary: endpoint.summary,
    description: details,
    ...(parameters.length > 0 && { parameters }),
    requestBody: schemas.body && {
      // A request without a body has an empty object.
      required: !schemas.body.safeParse({}).success,
      content: jsonContent(collect(schemas.body, "input"), endpoint.example),
    },
    responses: responsesOf(endpoint, info, collect),
    callbacks: callback && describeCallback(callback, collect),
  };
};

const pathsOf = (endpoints: readonly Endpoint[], info: DocumentInfo, collect: Collect): Json => {
  const byPath = Map.groupBy(endpoints, ({ path }) => path.replaceAll(/:(\w+)/gu, "{$1}"));
  const operations = Array.from(byPath, ([path, same]) => [
    path,
    Object.fromEntries(same.map((each) => [each.method, operationOf(each, info, collect)])),
  ]);
  return Object.fromEntries(operations);
};

/** Creates the OpenAPI 3.1 document of an interface from its endpoints. JSON leaves out what is undefined. */
export const createDocument = (endpoints: readonly Endpoint[], info: DocumentInfo): Json => {
  const { components, collect } = createSchemaCollector();
  const paths = pathsOf(endpoints, info, collect);
  const { title, version, description, baseUrl, securitySchemes, security } = info;
  return {
    openapi: "3.1.1",
    info: { title, version, description, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: baseUrl }],
    security: security.map((names) => Object.fromEntries(names.map((name) => [name, []]))),
    tags: [...new Set(endpoints.map(({ tag }) => tag))].map((name) => ({ name })),
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
