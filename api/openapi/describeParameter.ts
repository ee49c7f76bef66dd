import type { Json } from "./createSchemaCollector.ts";

const acceptsEmpty = ({ type, pattern, ...schema }: Json): boolean =>
  type === "string" &&
  (typeof pattern !== "string" || new RegExp(pattern, "u").test("")) &&
  ["format", "enum", "const", "anyOf"].every((constraint) => !(constraint in schema));

/** Describes a query parameter that holds JSON by the JSON's schema, and says that an empty parameter is accepted. */
export const describeParameter = (
  parameter: Json,
  { contentMediaType, contentSchema, ...schema }: Json,
): Json => {
  const { examples, default: fallback, ...accepted } = schema;
  if (typeof contentMediaType === "string") {
    const [example]: readonly unknown[] = Array.isArray(examples) ? examples : [];
    return {
      ...parameter,
      content: {
        [contentMediaType]: {
          schema: contentSchema,
          ...(typeof example === "string" ? { example: JSON.parse(example) as unknown } : {}),
        },
      },
    };
  }
  return {
    ...parameter,
    // An empty required parameter is a missing one.
    schema:
      parameter["required"] === true || acceptsEmpty(accepted)
        ? schema
        : {
            ...(examples === undefined ? {} : { examples }),
            ...(fallback === undefined ? {} : { default: fallback }),
            anyOf: [accepted, { const: "" }],
          },
  };
};
