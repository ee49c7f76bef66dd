import { z } from "zod";
import { date } from "../../modules/records/fields.rules.ts";
import type { ImpactFilter } from "../../modules/stores/customers.rules.ts";
import { orderId } from "../../modules/stores/customers.rules.ts";
import { readTimestamp, TIMESTAMP_PATTERN } from "../../modules/records/timestamps.rules.ts";
import { startOfDay } from "../http/listPages.ts";
import { queryObject } from "../http/parseRequest.ts";
import { customerFilterOf, customerParameters, isGiven } from "./fields.ts";
import { limitParameter } from "./pagination.ts";

const cursorParameter = z
  .string()
  .transform((given, context) => {
    const createdAt = readTimestamp(given, "up");
    if (createdAt === null) {
      context.addIssue({
        code: "custom",
        message: "must be a timestamp such as 2025-06-01T12:00:00.123456Z",
      });
      return z.NEVER;
    }
    return { createdAt, id: null };
  })
  .optional()
  .meta({
    pattern: TIMESTAMP_PATTERN,
    description:
      "The next_cursor of the previous page, or any ISO 8601 timestamp (UTC without an offset): the page starts with the newest older record.",
  });

export const listQuery = queryObject({
  ...customerParameters,
  order_id: orderId()
    .optional()
    .meta({
      description: "The order, with or without its #. In a URL, write # as %23.",
      examples: ["1001"],
    }),
  start_date: date()
    .optional()
    .meta({ description: "The first day, UTC.", examples: ["2025-06-01"] }),
  end_date: date()
    .optional()
    .meta({
      description: "The day after the last one, UTC; its records are not included.",
      examples: ["2025-07-01"],
    }),
  limit: limitParameter,
  after_created_at: cursorParameter,
});

/** Returns the filter that a list's query describes; blank parameters are ignored. */
export const impactFilterOf = (query: z.output<typeof listQuery>): ImpactFilter => ({
  ...customerFilterOf(query),
  ...(isGiven(query.order_id) ? { orderId: query.order_id } : {}),
  ...(query.start_date ? { from: startOfDay(query.start_date) } : {}),
  ...(query.end_date ? { until: startOfDay(query.end_date) } : {}),
});
