import { isDeepStrictEqual } from "node:util";
import { z } from "zod";

/** A JSON schema. */
export type Json = { readonly [name: string]: unknown };

const isObject = (value: unknown): value is Json =>
  typeof value === "object" && value !== null && !Array.isArray(value);

const listOf = (value: unknown): readonly Json[] =>
  Array.isArray(value) ? value.filter(isObject) : [];

/** Rewrites the schemas that a schema consists of. */
const rewriteParts = (schema: Json, rewrite: (part: Json) => Json): Json =>
  Object.fromEntries(
    Object.entries(schema).map(([keyword, value]) => {
      if (["properties", "$defs"].includes(keyword) && isObject(value)) {
        const parts = Object.entries(value).map(([name, part]) => [
          name,
          isObject(part) ? rewrite(part) : part,
        ]);
        return [keyword, Object.fromEntries(parts)];
      }
      if (["anyOf", "oneOf"].includes(keyword)) {
        return [keyword, listOf(value).map(rewrite)];
      }
      const isPart = ["items", "additionalProperties"].includes(keyword) && isObject(value);
      return [keyword, isPart ? rewrite(value) : value];
    }),
  );

/**
 * Writes an alternative of a type and null as one schema: `{"type": ["string", "null"]}`. In requests null is the same as an
 * absent field, so clients need no type for it.
 */
const mergeNull = ({ anyOf, ...own }: Json, io: "input" | "output"): Json => {
  const alternatives = listOf(anyOf);
  const [given, ...rest] = alternatives.filter(({ type }) => type !== "null");
  if (given === undefined || rest.length > 0 || alternatives.length !== 2) {
    return anyOf === undefined ? own : { anyOf, ...own };
  }
  if (io === "input") {
    return { ...given, ...own };
  }
  return given["type"] === undefined
    ? { anyOf, ...own }
    : {
        ...given,
        type: [given["type"], "null"],
        ...(Array.isArray(given["enum"]) ? { enum: [...given["enum"], null] } : {}),
        ...own,
      };
};

/** Alternatives that are named objects exclude each other. */
const excludeAlternatives = ({ anyOf, ...own }: Json): Json => {
  const alternatives = listOf(anyOf);
  return alternatives.length > 1 && alternatives.every(({ $ref }) => $ref !== undefined)
    ? { oneOf: alternatives, ...own }
    : { ...(anyOf === undefined ? {} : { anyOf }), ...own };
};

/** Says that numbers have 64 bits, because generators assume 32. */
const describeNumber = (schema: Json): Json => {
  const types = [schema["type"]].flat();
  if (types.includes("integer") || Number.isInteger(schema["const"])) {
    return { ...schema, type: types.length > 1 ? types : "integer", format: "int64" };
  }
  return types.includes("number") ? { ...schema, format: "double" } : schema;
};

/** zod adds a pattern to each format, which can be a screen long. Only a string has a pattern. */
const dropPattern = ({ pattern, ...own }: Json): Json =>
  pattern === undefined || own["format"] !== undefined || own["type"] !== "string"
    ? own
    : { ...own, pattern };

/** A Java generator writes a constant of a boolean that does not compile. */
const dropBooleanConstant = ({ const: constant, ...own }: Json): Json =>
  constant === undefined || typeof constant === "boolean" ? own : { ...own, const: constant };

/** Names the property that distinguishes the alternatives. Without it, generated clients guess. */
const addDiscriminator = (schema: Json, definitions: Json): Json => {
  const references = listOf(schema["oneOf"]).map(({ $ref }) => String($ref));
  const propertiesOf = (reference: string): Json => {
    const definition = definitions[reference.slice("#/$defs/".length)];
    return isObject(definition) && isObject(definition["properties"])
      ? definition["properties"]
      : {};
  };
  const constantOf = (reference: string, name: string): unknown => {
    const property = propertiesOf(reference)[name];
    return isObject(property) ? property["const"] : undefined;
  };
  const name = Object.keys(propertiesOf(references[0] ?? "")).find((property) =>
    references.every((reference) => constantOf(reference, property) !== undefined),
  );
  return name === undefined
    ? schema
    : {
        ...schema,
        discriminator: {
          propertyName: name,
          mapping: Object.fromEntries(
            references.map((reference) => [String(constantOf(reference, name)), reference]),
          ),
        },
      };
};

/** A later release may add fields to a response, which generated clients must not reject. */
const openObject = ({ additionalProperties, ...own }: Json): Json =>
  additionalProperties === undefined || additionalProperties === false
    ? own
    : { ...own, additionalProperties };

/** Writes a schema of zod so that public generators of clients understand it. */
const describeSchema = (schema: Json, io: "input" | "output"): Json => {
  const definitions = isObject(schema["$defs"]) ? schema["$defs"] : {};
  const steps: readonly ((part: Json) => Json)[] = [
    (part) => (io === "output" ? openObject(part) : part),
    (part) => mergeNull(part, io),
    excludeAlternatives,
    describeNumber,
    dropPattern,
    dropBooleanConstant,
    (part) => addDiscriminator(part, definitions),
  ];
  const rewrite = ({ propertyNames: _names, ...part }: Json): Json =>
    steps.reduce((rewritten, step) => step(rewritten), rewriteParts(part, rewrite));
  return rewrite(schema);
};

const COMPONENTS = "#/components/schemas/";

const convert = (schema: z.ZodType, io: "input" | "output"): Json => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what JSON.stringify wrote of an object is one.
  const json = JSON.parse(JSON.stringify(z.toJSONSchema(schema, { io }))) as Json;
  const text = JSON.stringify(describeSchema(json, io)).replaceAll('"#/$defs/', `"${COMPONENTS}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- as above.
  return JSON.parse(text) as Json;
};

const converted = { input: new WeakMap<z.ZodType, Json>(), output: new WeakMap<z.ZodType, Json>() };

/** Converts each schema once, because operations share most of them. */
const toJsonSchema = (schema: z.ZodType, io: "input" | "output"): Json => {
  const json = converted[io].get(schema) ?? convert(schema, io);
  converted[io].set(schema, json);
  return json;
};

/** Converts schemas and collects the named ones, which OpenAPI lists under `components`. */
export const createSchemaCollector = () => {
  const components: Record<string, unknown> = {};
  return {
    components,
    /** @throws Error if two schemas have the same name */
    collect: (schema: z.ZodType, io: "input" | "output"): Json => {
      const { $schema: _dialect, $defs, ...own } = toJsonSchema(schema, io);
      for (const [name, component] of Object.entries($defs ?? {})) {
        if (name in components && !isDeepStrictEqual(components[name], component)) {
          throw new Error(`Two schemas have the name ${name}.`);
        }
        components[name] = component;
      }
      return own;
    },
  };
};

export type Collect = ReturnType<typeof createSchemaCollector>["collect"];
