import { z } from "zod";

export type Json = { readonly [name: string]: unknown };

const COMPONENTS = "#/components/schemas/";

/** Writes an alternative of a type and null as one schema: `{"type": ["string", "null"]}`. */
const mergeNull = (schema: z.core.JSONSchema.BaseSchema): void => {
  const [given, alternative, ...rest] = schema.anyOf ?? [];
  if (
    given !== undefined &&
    given.type !== undefined &&
    alternative?.type === "null" &&
    rest.length === 0
  ) {
    delete schema.anyOf;
    Object.assign(schema, given, {
      type: [given.type, "null"],
      ...(given.enum === undefined ? {} : { enum: [...given.enum, null] }),
    });
  }
};

const convert = (schema: z.ZodType, io: "input" | "output"): Json => {
  const json = z.toJSONSchema(schema, {
    io,
    // zod adds a pattern to each format, which can be a screen long.
    override: ({ jsonSchema }) => {
      if (jsonSchema.format !== undefined) {
        delete jsonSchema.pattern;
      }
      mergeNull(jsonSchema);
    },
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what JSON.stringify wrote of an object is one.
  return JSON.parse(JSON.stringify(json).replaceAll('"#/$defs/', `"${COMPONENTS}`)) as Json;
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
    collect: (schema: z.ZodType, io: "input" | "output"): Json => {
      const { $schema: _dialect, $defs, ...own } = toJsonSchema(schema, io);
      Object.assign(components, $defs);
      return own;
    },
  };
};

export type Collect = ReturnType<typeof createSchemaCollector>["collect"];
