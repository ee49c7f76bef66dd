import openapiTS, { astToString } from "openapi-typescript";

/*
 * Writes the types of an interface from its OpenAPI document. Types of errors, headers and other formats are left out, because
 * the client handles them; so are examples of whole bodies.
 */

type Json = Readonly<Record<string, unknown>>;

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const objectOf = (value: unknown): Json => (isObject(value) ? value : {});

const listOf = (value: unknown): readonly Json[] =>
  Array.isArray(value) ? value.filter(isObject) : [];

const acceptsObject = ({ type }: Json): boolean =>
  type === "object" || (Array.isArray(type) && type.includes("object"));

/** Rewrites what the generator would translate to a type that is too narrow or too wide. */
const normalize = (schema: unknown): unknown => {
  if (Array.isArray(schema)) {
    return schema.map(normalize);
  }
  if (!isObject(schema)) {
    return schema;
  }
  const normalized: Json = Object.fromEntries(
    Object.entries(schema).map(([name, value]) => [name, normalize(value)]),
  );
  const { type, anyOf, properties } = normalized;
  if (type === "string") {
    // Formats and patterns beside a type: the generator would make them types that accept anything.
    const { anyOf: _formats, allOf: _patterns, ...own } = normalized;
    return own;
  }
  if (anyOf !== undefined && properties !== undefined) {
    // Alternatives beside properties: the generator would make them an alternative to the properties.
    const { anyOf: _alternatives, ...own } = normalized;
    return { allOf: [own, { anyOf }] };
  }
  if (acceptsObject(normalized) && properties === undefined) {
    return { additionalProperties: {}, ...normalized };
  }
  return normalized;
};

const isText = ({ const: constant }: Json): boolean => constant !== "";

/** A cursor may also be empty, so it is a text although it consists of digits. */
const acceptsDigitsOnly = ({ pattern }: Json): boolean => {
  if (typeof pattern !== "string" || !/\\d|\[0-9\]/u.test(pattern)) {
    return false;
  }
  const accepted = new RegExp(pattern, "u");
  return accepted.test("1") && !accepted.test("");
};

const BOOLEANS: ReadonlySet<unknown> = new Set(["true", "false"]);

/** Describes a parameter by what a program has, which the client writes as text: numbers, booleans and objects. */
const describeParameter = (parameter: Json): Json => {
  const { name, in: place, description, required, schema, content } = parameter;
  const json = objectOf(objectOf(content)["application/json"])["schema"];
  const given = objectOf(json ?? schema);
  const { anyOf, ...rest } = given;
  const alternatives = listOf(anyOf).filter(isText);
  const value: Json =
    alternatives.length > 1 ? { ...rest, anyOf: alternatives } : { ...rest, ...alternatives[0] };
  const { pattern: _pattern, examples: _examples, ...described } = value;
  const isBoolean =
    Array.isArray(value["enum"]) && value["enum"].every((each) => BOOLEANS.has(each));
  return {
    name,
    in: place,
    description,
    required,
    schema: normalize(
      isBoolean ? { type: "boolean" } : acceptsDigitsOnly(value) ? { type: "integer" } : described,
    ),
  };
};

const jsonSchemaOf = (container: unknown): unknown =>
  objectOf(objectOf(objectOf(container)["content"])["application/json"])["schema"];

const jsonContent = (schema: unknown): Json => ({
  content: { "application/json": { schema: normalize(schema) } },
});

const reduceOperation = (operation: Json): Json => {
  const { operationId, summary, requestBody, parameters, responses } = operation;
  return {
    operationId,
    description: summary,
    parameters: listOf(parameters)
      .filter((parameter) => parameter["in"] !== "header")
      .map(describeParameter),
    ...(requestBody === undefined
      ? {}
      : { requestBody: { required: true, ...jsonContent(jsonSchemaOf(requestBody)) } }),
    responses: {
      200: { description: "Success.", ...jsonContent(jsonSchemaOf(objectOf(responses)["200"])) },
    },
  };
};

type Operation = { readonly method: string; readonly path: string; readonly operation: Json };

const operationsOf = (document: Json): readonly Operation[] =>
  Object.entries(objectOf(document["paths"])).flatMap(([path, methods]) =>
    Object.entries(objectOf(methods)).map(([method, operation]) => ({
      method,
      path,
      operation: objectOf(operation),
    })),
  );

/** Returns the schema that a schema stands for. */
const resolve = (schema: unknown, schemas: Json): Json => {
  const { $ref: reference } = objectOf(schema);
  return typeof reference === "string"
    ? objectOf(schemas[reference.split("/").at(-1) ?? ""])
    : objectOf(schema);
};

/** Returns what an operation takes idempotency keys for: the request, each of its items, or nothing. */
const keyOf = ({ parameters, requestBody }: Json, schemas: Json): "request" | "items" | null => {
  if (listOf(parameters).some(({ name }) => name === "Idempotency-Key")) {
    return "request";
  }
  const { items } = objectOf(resolve(jsonSchemaOf(requestBody), schemas)["properties"]);
  const item = resolve(objectOf(items)["items"], schemas);
  return "idempotency_key" in objectOf(item["properties"]) ? "items" : null;
};

const describeOperation = ({ method, path, operation }: Operation, schemas: Json): string =>
  `  ${String(operation["operationId"])}: ${JSON.stringify({
    method: method.toUpperCase(),
    path,
    key: keyOf(operation, schemas),
  })},`;

/**
 * Returns a module with the types of an interface, and a table of its operations.
 * @param text the OpenAPI document, as JSON
 * @param publicSchemas JSON schemas of what the interface returns without a key, by name
 */
export const generateTypes = async (
  text: string,
  publicSchemas: Readonly<Record<string, unknown>> = {},
): Promise<string> => {
  const document = objectOf(JSON.parse(text));
  const operations = operationsOf(document);
  const paths: Record<string, Record<string, Json>> = {};
  for (const { method, path, operation } of operations) {
    paths[path] = { ...paths[path], [method]: reduceOperation(operation) };
  }
  const schemas = { ...objectOf(objectOf(document["components"])["schemas"]), ...publicSchemas };
  const nodes = await openapiTS(
    JSON.stringify({
      openapi: document["openapi"],
      info: document["info"],
      paths,
      components: { schemas: normalize(schemas) },
    }),
    { immutable: true, alphabetize: true },
  );
  const types = nodes.filter(
    (node) =>
      "name" in node &&
      ["components", "operations"].includes(astToString(node.name as never).trim()),
  );
  return `/* Generated by \`npm run client\` from the service's OpenAPI document. Do not edit. */

${astToString(types)}
export const OPERATIONS = {
${operations
  .map((each) => describeOperation(each, schemas))
  .toSorted()
  .join("\n")}
} as const;
`;
};
