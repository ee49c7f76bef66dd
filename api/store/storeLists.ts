import type { DatabasePool } from "slonik";
import { z } from "zod";
import type { HttpContext } from "../context.ts";
import { integerUpTo, startOfDay } from "../http/listPages.ts";
import { date } from "../../modules/records/fields.rules.ts";
import type { ImpactFilter } from "../../modules/stores/customers.rules.ts";
import { orderId } from "../../modules/stores/customers.rules.ts";
import { readTimestamp, TIMESTAMP_PATTERN } from "../../modules/records/timestamps.rules.ts";
import { queryObject } from "../http/parseRequest.ts";
import { customerFilterOf, customerParameters, isGiven } from "./fields.ts";
import type { ListPosition, PositionedRow } from "../../modules/records/listPositions.sql.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { presentPages } from "../../runtime/presentPages.ts";
import type { ListPart } from "../../modules/records/readWholeList.ts";
import { readWholeList } from "../../modules/records/readWholeList.ts";
import { onePage, selectsPage } from "../http/listExports.ts";

const DEFAULT_LIMIT = 20;
const MAXIMUM_LIMIT = 100;

export const limitParameter = integerUpTo(MAXIMUM_LIMIT, { default: DEFAULT_LIMIT })
  .default(DEFAULT_LIMIT)
  .meta({
    description: `Page size; ${DEFAULT_LIMIT} by default. More than ${MAXIMUM_LIMIT} is read as ${MAXIMUM_LIMIT}.`,
  });

/** The fields of a response that point to the next page. */
export const pageFields = {
  has_more: z.boolean(),
  next_cursor: z.string().meta({ description: "Empty on the last page." }),
};

/**
 * Cuts a page out of rows that were queried with a limit of one more than the page holds.
 * @returns the rows of the page, and its last row if more follow
 */
export const toPage = <Row>(
  rows: readonly Row[],
  limit: number,
): { readonly page: readonly Row[]; readonly last: Row | undefined } => {
  const page = rows.slice(0, limit);
  return { page, last: rows.length > limit ? page.at(-1) : undefined };
};

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

/** Returns the pool for a list: many records may have to be read to find those of a customer or an order. */
export const poolOfList = (
  { db, reads }: Pick<HttpContext, "db" | "reads">,
  query: z.output<typeof listQuery>,
): DatabasePool =>
  isGiven(query.order_id) || Object.keys(customerFilterOf(query)).length > 0 ? reads : db;

/** What the descriptions of lists say about their other formats. */
export const EXPORT_DETAILS = "CSV and NDJSON have all of them, unless limit is given.";

/** Reads a list of the store interface as a page of JSON, or whole for a file. */
export const readStoreList = <Row extends PositionedRow, Presented extends object, Body>(
  ctx: RequestContext,
  { limit, after }: { readonly limit: number; readonly after: ListPosition | null },
  {
    list,
    present,
    presentPage,
  }: {
    readonly list: (part: ListPart) => Promise<readonly Row[]>;
    readonly present: (row: Row) => Presented;
    readonly presentPage: (
      rows: Presented[],
      page: { readonly count: number; readonly has_more: boolean; readonly next_cursor: string },
    ) => Body;
  },
): {
  readonly readBody: () => Promise<Body>;
  readonly readPages: () => AsyncIterable<Iterable<object>>;
} => ({
  readBody: async () => {
    const { page, last } = toPage(await list({ after, limit: limit + 1 }), limit);
    return presentPage(page.map(present), {
      count: page.length,
      has_more: last !== undefined,
      next_cursor: last?.position ?? "",
    });
  },
  readPages: () =>
    presentPages(
      selectsPage(ctx, ["limit"])
        ? onePage(() => list({ after, limit }))
        : readWholeList(list, { start: after }),
      present,
    ),
});
