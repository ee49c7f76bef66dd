import { z } from "zod";
import { invalid } from "./responses.ts";

const text = z.string();
const integer = z.coerce.number().int();
const page = { limit: integer.min(1).max(100).optional(), starting_after: text.optional() };
const item = { price: text, quantity: integer.min(0).optional() };
/** `items[0]`, `items[1]` … */
const items = z.record(text, z.strictObject(item)).transform((entries) => Object.values(entries));
const lineItem = z.strictObject({
  quantity: integer.min(1),
  price_data: z.strictObject({
    currency: text,
    unit_amount: integer.min(0),
    product_data: z.strictObject({ name: text.min(1) }),
  }),
});

const metadata = z.record(text.max(40), text.max(500)).optional();

/** The parameters that the double models, by call. As at Stripe, all others are rejected. */
const requests = {
  nothing: z.strictObject({}),
  meterCreate: z.strictObject({
    display_name: text,
    event_name: text.max(100),
    default_aggregation: z.strictObject({ formula: z.enum(["count", "last", "sum"]) }),
    event_time_window: z.enum(["day", "hour"]).optional(),
    customer_mapping: z
      .strictObject({ type: z.literal("by_id"), event_payload_key: text })
      .optional(),
    value_settings: z.strictObject({ event_payload_key: text }).optional(),
  }),
  meterList: z.strictObject(page),
  meterEventCreate: z.strictObject({
    event_name: text.max(100),
    payload: z.record(text, text),
    identifier: text.max(100).optional(),
    timestamp: integer.optional(),
  }),
  meterListEventSummaries: z.strictObject({
    customer: text,
    start_time: integer,
    end_time: integer,
    ...page,
  }),
  subscriptionUpdate: z.strictObject({
    items: items.optional(),
    proration_behavior: z.literal("none").optional(),
    payment_behavior: z.literal("error_if_incomplete").optional(),
  }),
  subscriptionList: z.strictObject({ customer: text, status: z.enum(["all"]).optional(), ...page }),
  subscriptionItemList: z.strictObject({ subscription: text, ...page }),
  invoiceList: z.strictObject({
    customer: text,
    created: z.strictObject({ gte: integer }).optional(),
    ...page,
  }),
  invoiceListLines: z.strictObject(page),
  checkoutCreate: z.strictObject({
    mode: z.literal("payment"),
    line_items: z.strictObject({ 0: lineItem }).transform((entries) => [entries[0]] as const),
    success_url: z.url(),
    cancel_url: z.url().optional(),
    client_reference_id: text.max(200).optional(),
    metadata,
    payment_intent_data: z.strictObject({ description: text.optional(), metadata }).optional(),
  }),
  checkoutList: z.strictObject({
    status: z.enum(["complete", "expired", "open"]).optional(),
    created: z.strictObject({ gte: integer }).optional(),
    ...page,
  }),
};

export type Requests = { [Name in keyof typeof requests]: z.output<(typeof requests)[Name]> };

type Parameters = { [key: string]: string | Parameters };

/** Parses `a[b][0]=c` into nested objects. */
const parseForm = (form: string): Parameters => {
  const parameters: Parameters = {};
  for (const [name, value] of new URLSearchParams(form)) {
    const keys = name.split(/[[\]]+/u).filter((key) => key !== "");
    const last = keys.pop() ?? "";
    let parent = parameters;
    for (const key of keys) {
      const child = parent[key];
      const next = typeof child === "object" ? child : {};
      parent[key] = next;
      parent = next;
    }
    parent[last] = value;
  }
  return parameters;
};

/**
 * Parses the parameters of a call.
 * @throws ErrorResponse a 400
 */
export const parseRequest = <Name extends keyof Requests>(name: Name, form: string) => {
  const { error, data } = requests[name].safeParse(parseForm(form));
  if (error) {
    throw invalid(z.prettifyError(error));
  }
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- the output of the schema with this name
  return data as Requests[Name];
};
