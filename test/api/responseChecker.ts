import { Ajv2020 } from "ajv/dist/2020.js";
import type { ExecutionContext } from "ava";
import { z } from "zod";
import { PROBES } from "../../runtime/server/openDoor.ts";

/** The parts of an OpenAPI document that responses are checked against. */
const apiDescription = z.looseObject({
  openapi: z.string(),
  paths: z.record(
    z.string(),
    z.record(z.string(), z.looseObject({ responses: z.record(z.string(), z.looseObject({})) })),
  ),
});

export const readDescription = async (url: string) =>
  apiDescription.parse(await (await fetch(`${url}/openapi.json`)).json());

/** Lists the operations of an interface. Their paths have random ids for parameters. */
export const listOperations = async (url: string) =>
  Object.entries((await readDescription(url)).paths).flatMap(([template, operations]) =>
    Object.entries(operations).map(([verb, operation]) => {
      const method = verb.toUpperCase();
      const path = template.replaceAll(/\{\w+\}/gu, crypto.randomUUID());
      return { name: `${method} ${template}`, method, path, operation };
    }),
  );

type ResponseText = {
  readonly method: string;
  readonly path: string;
  readonly status: number;
  readonly contentType: string | null;
  readonly text: string;
};

/** The statuses of errors of HTTP itself, which all operations describe as one. */
const HTTP_ERRORS: ReadonlySet<number> = new Set([400, 408, 417, 431]);

const FORMATS = {
  uuid: /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/u,
  "date-time": /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.(?:\d{3}|\d{6})Z$/u,
  date: /^\d{4}-\d{2}-\d{2}$/u,
  uri: /^https?:\/\/\S+$/u,
  int64: true,
  double: true,
} as const;

/** Says that objects have no other fields than those that are described, which a later release may add. */
const closeObjects = (schema: unknown): unknown => {
  if (Array.isArray(schema)) {
    return schema.map(closeObjects);
  }
  if (typeof schema !== "object" || schema === null) {
    return schema;
  }
  const closed = Object.fromEntries(
    Object.entries(schema).map(([name, part]) => [name, closeObjects(part)]),
  );
  return typeof closed["properties"] === "object" && closed["type"] === "object"
    ? { additionalProperties: false, ...closed }
    : closed;
};

const pointer = (...names: readonly string[]): string =>
  names.map((name) => `/${name.replaceAll("~", "~0").replaceAll("/", "~1")}`).join("");

const matches = (template: string, path: string): boolean =>
  new RegExp(`^${template.replaceAll(/\{\w+\}/gu, "[^/]+")}/?$`, "u").test(path);

type CheckResponse = (t: ExecutionContext, response: ResponseText) => void;

const createChecker = (text: string): CheckResponse => {
  const document = apiDescription.parse(closeObjects(JSON.parse(text)));
  const ajv = new Ajv2020({
    strict: false,
    formats: FORMATS,
    allErrors: true,
    // The document is not a JSON schema itself, so compiling the schema of schemas to check it would prove nothing.
    meta: false,
    validateSchema: false,
  });
  ajv.addSchema(document, "api");

  const schemaOf = ({ method, path, status }: ResponseText): string => {
    const template = Object.keys(document.paths).find((known) => matches(known, path));
    const operation = template && document.paths[template]?.[method.toLowerCase()];
    if (template === undefined || !operation) {
      return pointer("components", "schemas", "Error");
    }
    const described = [String(status), ...(HTTP_ERRORS.has(status) ? ["default"] : [])].find(
      (each) => operation.responses[each] !== undefined,
    );
    if (described === undefined) {
      throw new Error(`${method} ${path} returned ${status}, which is not documented`);
    }
    const response = pointer("paths", template, method.toLowerCase(), "responses", described);
    return response + pointer("content", "application/json", "schema");
  };

  return (t, response) => {
    // Probes are no part of the description.
    if (PROBES.has(response.path)) {
      return;
    }
    if (response.method === "HEAD" || response.status === 204) {
      t.is(response.text, "");
      return;
    }
    const validate = ajv.getSchema(`api#${schemaOf(response)}`);
    if (!validate) {
      throw new Error(`The description has no schema for ${response.method} ${response.path}`);
    }
    t.regex(response.contentType ?? "", /^application\/json; charset=utf-8$/u);
    t.true(validate(JSON.parse(response.text)), ajv.errorsText(validate.errors));
  };
};

const readChecker = async (url: string): Promise<CheckResponse> =>
  createChecker(await (await fetch(`${url}/openapi.json`)).text());

/** By what the description depends on. Making and compiling one takes longer than all else that starts an API. */
const checkers = new Map<string, Promise<CheckResponse>>();

/**
 * Returns a check of responses against an API's description: the operation must document the status, and the body must
 * match its schema. Responses to unknown paths and methods must match the schema of errors.
 * @param variant the interface, and what its description depends on. Of several APIs in a process that have the same
 *   description, it is read from the first
 */
export const readResponseChecker = (url: string, variant: string): Promise<CheckResponse> => {
  const checker = checkers.get(variant) ?? readChecker(url);
  checkers.set(variant, checker);
  return checker;
};

/** Parses the body of a checked response; no body is an empty object. */
export const parseBody = (text: string): Record<string, unknown> => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the response checker has validated it.
  return text === "" ? {} : (JSON.parse(text) as Record<string, unknown>);
};

/** A response that has been checked against the API description. */
export type CheckedResponse = {
  readonly status: number;
  readonly headers: Headers;
  /** The header Idempotent-Replayed. */
  readonly replayed: string | null;
  readonly text: string;
  /** The parsed JSON body; empty if there is none. */
  readonly body: Record<string, unknown>;
};

/** Returns what sends requests to an API, and checks the responses. A body is sent as JSON; strings and bytes as they are. */
export const createCaller =
  (t: ExecutionContext, url: string, check: CheckResponse) =>
  async (
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body?: unknown,
  ): Promise<CheckedResponse> => {
    const sent = typeof body === "string" || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const response = await fetch(`${url}${path}`, {
      method,
      headers: { ...(body !== undefined && { "Content-Type": "application/json" }), ...headers },
      ...(body !== undefined && { body: sent }),
    });
    const text = await response.text();
    const { status } = response;
    // A 304 has no content.
    if (status !== 304) {
      const contentType = response.headers.get("content-type");
      check(t, { method, path: new URL(url + path).pathname, status, contentType, text });
    }
    const { headers: received } = response;
    const replayed = received.get("Idempotent-Replayed");
    return { status, headers: received, replayed, text, body: parseBody(text) };
  };
