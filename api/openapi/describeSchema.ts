import { isDeepStrictEqual } from "node:util";
import { z } from "zod";

export type Json = { readonly [name: string]: unknown };

type Io = "input" | "output";
type Node = z.core.JSONSchema.BaseSchema;

/** Writes an alternative of a type and null as one schema: `{"type": ["string", "null"]}`. */
const mergeNull = (schema: Node): void => {
  const { anyOf = [], ...own } = schema;
  const [given, ...rest] = anyOf.filter(({ type }) => type !== "null");
  if (given?.type !== undefined && rest.length === 0 && anyOf.length === 2) {
    delete schema.anyOf;
    const values = given.enum && { enum: [...given.enum, null] };
    Object.assign(schema, given, { type: [given.type, "null"] }, values, own);
  }
};

const constantOf = (schema: z.core.$ZodType, name: string): unknown => {
  const property = schema instanceof z.ZodObject ? schema.shape[name] : undefined;
  return property instanceof z.ZodLiteral ? [...property.values][0] : undefined;
};

/**
 * Says of alternatives that are named objects that they exclude each other, and by which property. Without it, generated
 * clients guess.
 */
const excludeAlternatives = (schema: Node, zodSchema: z.core.$ZodType): void => {
  const alternatives = schema.oneOf ?? schema.anyOf ?? [];
  if (alternatives.length < 2 || alternatives.some(({ $ref }) => $ref === undefined)) {
    return;
  }
  delete schema.anyOf;
  schema.oneOf = alternatives;
  if (zodSchema instanceof z.ZodDiscriminatedUnion) {
    const propertyName = zodSchema.def.discriminator;
    schema["discriminator"] = {
      propertyName,
      mapping: Object.fromEntries(
        zodSchema.options.map((option, index) => [
          String(constantOf(option, propertyName)),
          alternatives[index]?.$ref,
        ]),
      ),
    };
  }
};

/** Says that numbers have 64 bits, because generators assume 32. */
const describeNumber = (schema: Node): void => {
  const types = [schema.type].flat().map(String);
  if (types.includes("integer") || Number.isInteger(schema.const)) {
    if (types.length === 1) {
      schema.type = "integer";
    }
    schema.format = "int64";
  } else if (types.includes("number")) {
    schema.format = "double";
  }
};

/** Rewrites a part of what zod writes, so that public generators of clients understand it. */
const rewrite = (schema: Node, zodSchema: z.core.$ZodType, io: Io): void => {
  delete schema.propertyNames;
  // A later release may add fields to a response, which generated clients must not reject.
  if (io === "output" && schema.additionalProperties === false) {
    delete schema.additionalProperties;
  }
  mergeNull(schema);
  excludeAlternatives(schema, zodSchema);
  describeNumber(schema);
  // zod adds a pattern to each format, which can be a screen long.
  if (schema.format !== undefined) {
    delete schema.pattern;
  }
  // A Java generator writes a constant of a boolean that does not compile.
  if (typeof schema.const === "boolean") {
    delete schema.const;
  }
};

const COMPONENTS = "#/components/schemas/";

const convert = (schema: z.ZodType, io: Io): Json => {
  const json = z.toJSONSchema(schema, {
    io,
    override: ({ jsonSchema, zodSchema }) => rewrite(jsonSchema, zodSchema, io),
  });
  const text = JSON.stringify(json).replaceAll('"#/$defs/', `"${COMPONENTS}`);
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what JSON.stringify wrote of an object is one.
  return JSON.parse(text) as Json;
};

/** Converts schemas and collects the named ones, which OpenAPI lists under `components`. */
export const createSchemaCollector = () => {
  const components: Record<string, unknown> = {};
  return {
    components,
    /** @throws Error if two schemas have the same name */
    collect: (schema: z.ZodType, io: Io): Json => {
      const { $schema: _dialect, $defs, ...own } = convert(schema, io);
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
