import { isDeepStrictEqual } from "node:util";
import { z } from "zod";
import { describeSchema } from "./describeSchema.ts";
import type { Json } from "./describeSchema.ts";

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
