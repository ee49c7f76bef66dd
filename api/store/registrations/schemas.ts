import { z } from "zod";
import { readCursor } from "../cursor.ts";
import type { ImpactFilter, ImpactRecord } from "../../../domain/stores/customers.ts";
import { orderId } from "../../../domain/stores/customers.ts";
import { count, date } from "../../../domain/fields.ts";
import { startOfDay } from "../../http/days.ts";
import { bodyObject, queryObject } from "../../http/parseRequest.ts";
import {
  customerFilterOf,
  customerParameters,
  notesField,
  orderFields,
  SUCCESS,
} from "../fields.ts";
import type { KindNames } from "./kinds.ts";
import { KIND_NAMES } from "./kinds.ts";

const record = z
  .strictObject({
    id: z.uuid().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"] }),
    count: z
      .int()
      .min(1)
      .meta({ description: "As recorded; a refund leaves it.", examples: [3] }),
    refunded_count: z
      .int()
      .min(0)
      .meta({ description: "Units of it that were taken back.", examples: [0] }),
    customer_name: z.string().meta({ description: "Empty when none was given." }),
    customer_email: z.string(),
    customer_id: z.string(),
    order_id: z.string(),
    notes: z.string(),
    created_at: z.iso.datetime().meta({ examples: ["2025-06-01T12:00:00.000Z"] }),
  })
  .meta({ id: "ImpactRecord" });

export const presentRecord = (impact: ImpactRecord): z.output<typeof record> => ({
  id: impact.id,
  count: impact.count,
  refunded_count: impact.refundedCount,
  customer_name: impact.customerName ?? "",
  customer_email: impact.customerEmail ?? "",
  customer_id: impact.customerId ?? "",
  order_id: impact.orderId ?? "",
  notes: impact.notes ?? "",
  created_at: impact.createdAt.toISOString(),
});

const DEFAULT_LIMIT = 20;
const MAXIMUM_LIMIT = 100;
const LIMIT_MUST_BE = `must be an integer from 1 to ${MAXIMUM_LIMIT}`;

/** How many records a page may hold. */
export const limitParameter = z
  .string({ error: LIMIT_MUST_BE })
  .regex(/^(?:[1-9]\d?|100)?$/u, LIMIT_MUST_BE)
  .transform((given) => (given === "" ? DEFAULT_LIMIT : Number(given)))
  .default(DEFAULT_LIMIT)
  .meta({
    description: `Records on the page; ${DEFAULT_LIMIT} by default, at most ${MAXIMUM_LIMIT}.`,
  });

const cursorParameter = z
  .string()
  .transform((given, context) => {
    const position = given === "" ? null : readCursor(given);
    if (given !== "" && position === null) {
      context.addIssue({
        code: "custom",
        message:
          "must be the next_cursor of a page, or an instant such as 2025-06-01T12:00:00.000Z",
      });
      return z.NEVER;
    }
    return position;
  })
  .optional()
  .meta({
    description:
      "The next_cursor of the page before. An instant alone stands for all records that are older.",
  });

const DAY_ERROR = "must be a calendar date in the form YYYY-MM-DD";
const day = () =>
  z
    .string({ error: DAY_ERROR })
    .refine((given) => given === "" || date().safeParse(given).success, DAY_ERROR);

export const listQuery = queryObject({
  ...customerParameters,
  order_id: orderId()
    .optional()
    .meta({
      description: "The order, with or without its #; a # in a query is written %23.",
      examples: ["1001"],
    }),
  start_date: day()
    .optional()
    .meta({ description: "The first day, UTC.", examples: ["2025-06-01"] }),
  end_date: day()
    .optional()
    .meta({
      description: "The day after the last one, UTC: records of this day are left out.",
      examples: ["2025-07-01"],
    }),
  limit: limitParameter,
  after_created_at: cursorParameter,
});

/** What a list's query asks for. */
export const impactFilterOf = (query: z.output<typeof listQuery>): ImpactFilter => ({
  ...customerFilterOf(query),
  ...(query.order_id === undefined || query.order_id === "" ? {} : { orderId: query.order_id }),
  ...(query.start_date === undefined || query.start_date === ""
    ? {}
    : { from: startOfDay(query.start_date) }),
  ...(query.end_date === undefined || query.end_date === ""
    ? {}
    : { until: startOfDay(query.end_date) }),
});

const units = (plural: string) =>
  count().meta({ description: `Number of ${plural}.`, examples: [3] });

const treeBody = bodyObject({ trees: units("trees"), ...orderFields, notes: notesField }).meta({
  id: "NewTreeRecord",
});
const bottleBody = bodyObject({
  bottles: units("bottles"),
  ...orderFields,
  notes: notesField,
}).meta({ id: "NewPlasticRecord" });

export const unitsOf = (body: z.output<typeof treeBody> | z.output<typeof bottleBody>): number =>
  "trees" in body ? body.trees : body.bottles;

const writeResponse = ({ title, countField }: KindNames) =>
  z
    .strictObject({
      status: z.literal(SUCCESS),
      [countField]: z.int().min(1),
      customer_name: z.string(),
      order_id: z.string(),
    })
    .meta({ id: `${title}Receipt` });

const listResponse = ({ title, listField }: KindNames) =>
  z
    .strictObject({
      [listField]: z.array(record),
      count: z.int().min(0).meta({ description: "Records on this page." }),
      has_more: z.boolean(),
      next_cursor: z.string().meta({ description: "Empty when nothing follows." }),
    })
    .meta({ id: `${title}Records` });

const schemasOf = (names: KindNames) => ({
  response: writeResponse(names),
  listResponse: listResponse(names),
});

/** Built once: what is parsed with them is on the way of every request. */
export const SCHEMAS = {
  tree: { body: treeBody, ...schemasOf(KIND_NAMES.tree) },
  bottle: { body: bottleBody, ...schemasOf(KIND_NAMES.bottle) },
};
