import { z } from "zod";
import { date } from "../../../domain/fields.ts";
import type { ImpactFilter } from "../../../domain/stores/customers.ts";
import { orderId } from "../../../domain/stores/customers.ts";
import { startOfDay } from "../../http/days.ts";
import { queryObject } from "../../http/parseRequest.ts";
import { readCursor } from "../cursor.ts";
import { customerFilterOf, customerParameters } from "../fields.ts";
import { limitParameter } from "../pagination.ts";

const cursorParameter = z
  .string()
  .transform((given, context) => {
    const position = given === "" ? null : readCursor(given);
    if (given !== "" && position === null) {
      context.addIssue({
        code: "custom",
        message: "must be a next_cursor or a timestamp such as 2025-06-01T12:00:00.000Z",
      });
      return z.NEVER;
    }
    return position;
  })
  .optional()
  .meta({
    description:
      "The next_cursor of the previous page, or a timestamp: the page starts with the first older record.",
  });

const DAY_MUST_BE = "must be a calendar date in the form YYYY-MM-DD";
const day = () =>
  z
    .string({ error: DAY_MUST_BE })
    .refine((given) => given === "" || date().safeParse(given).success, DAY_MUST_BE);

export const listQuery = queryObject({
  ...customerParameters,
  order_id: orderId()
    .optional()
    .meta({
      description: "The order, with or without its #. In a URL, write # as %23.",
      examples: ["1001"],
    }),
  start_date: day()
    .optional()
    .meta({ description: "The first day, UTC.", examples: ["2025-06-01"] }),
  end_date: day()
    .optional()
    .meta({
      description: "The day after the last one, UTC; its records are not included.",
      examples: ["2025-07-01"],
    }),
  limit: limitParameter,
  after_created_at: cursorParameter,
});

/** Returns the filter that a list's query describes; empty parameters are ignored. */
export const impactFilterOf = (query: z.output<typeof listQuery>): ImpactFilter => ({
  ...customerFilterOf(query),
  ...(query.order_id ? { orderId: query.order_id } : {}),
  ...(query.start_date ? { from: startOfDay(query.start_date) } : {}),
  ...(query.end_date ? { until: startOfDay(query.end_date) } : {}),
});
