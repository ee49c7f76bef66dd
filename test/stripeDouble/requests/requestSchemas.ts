import { createGenerator } from "ts-json-schema-generator";

/** A JSON Schema. */
type Schema = { [key: string]: unknown };

const CLOSED: Record<string, readonly string[]> = {
  formula: ["count", "last", "sum"],
  type: ["by_id"],
  behavior: ["keep_as_draft", "mark_uncollectible", "void"],
  value_grouping_window: ["day", "hour"],
  event_time_window: ["day", "hour"],
  usage_type: ["licensed", "metered"],
  interval: ["day", "month", "week", "year"],
  proration_behavior: ["always_invoice", "create_prorations", "none"],
  payment_behavior: [
    "allow_incomplete",
    "default_incomplete",
    "error_if_incomplete",
    "pending_if_incomplete",
  ],
};
/** The statuses that each list can be filtered by. */
const STATUSES: Record<string, readonly string[]> = {
  meterList: ["active", "inactive"],
  subscriptionList: [
    "active",
    "all",
    "canceled",
    "ended",
    "incomplete",
    "incomplete_expired",
    "past_due",
    "paused",
    "trialing",
    "unpaid",
  ],
  invoiceList: ["draft", "open", "paid", "uncollectible", "void"],
};
const LIMITS: Record<string, Schema> = {
  event_name: { maxLength: 100 },
  identifier: { maxLength: 100 },
  limit: { minimum: 1, maximum: 100 },
};

const isSchema = (value: unknown): value is Schema =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Adds the limits that Stripe documents but its types leave open: whole numbers, enumerations, lengths. */
const tighten = (schema: Schema): Schema => {
  const entries = Object.entries(schema).map(([key, value]): [string, unknown] => {
    if (key === "type" && value === "number") {
      return [key, "integer"];
    }
    if (key === "properties" && isSchema(value)) {
      return [
        key,
        Object.fromEntries(
          Object.entries(value).map(([name, property]) => [
            name,
            name in CLOSED
              ? { type: "string", enum: CLOSED[name] }
              : { ...(isSchema(property) ? tighten(property) : {}), ...LIMITS[name] },
          ]),
        ),
      ];
    }
    if (Array.isArray(value)) {
      return [key, value.map((each: unknown) => (isSchema(each) ? tighten(each) : each))];
    }
    return [key, isSchema(value) ? tighten(value) : value];
  });
  // Descriptions do not validate anything.
  return Object.fromEntries(entries.filter(([key]) => key !== "description"));
};

/** Derives the request schemas from the installed `stripe` package. It takes about 3 s, so the result is stored in a file. */
export const deriveRequestSchemas = (): unknown => {
  const generator = createGenerator({
    path: new URL("requestTypes.ts", import.meta.url).pathname,
    tsconfig: new URL("../../../tsconfig.json", import.meta.url).pathname,
    type: "RequestTypes",
    expose: "none",
    additionalProperties: false,
    skipTypeCheck: true,
  });
  const { definitions } = generator.createSchema("RequestTypes");
  const all = definitions?.["RequestTypes"];
  if (!isSchema(all) || !isSchema(all["properties"])) {
    throw new Error("requestTypes.ts has no schemas.");
  }
  const schemas = tighten({ properties: all["properties"] })["properties"];
  if (!isSchema(schemas)) {
    throw new Error("requestTypes.ts has no schemas.");
  }
  return Object.fromEntries(
    Object.entries(schemas).map(([name, schema]) => {
      const statuses = STATUSES[name];
      return statuses && isSchema(schema) && isSchema(schema["properties"])
        ? [
            name,
            {
              ...schema,
              properties: { ...schema["properties"], status: { type: "string", enum: statuses } },
            },
          ]
        : [name, schema];
    }),
  );
};
