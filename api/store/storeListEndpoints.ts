import { z } from "zod";
import type { AccountMode, Kind } from "../../modules/records/owner.rules.ts";
import type { ListPart } from "../../modules/records/readWholeList.ts";
import { date } from "../../modules/records/fields.rules.ts";
import { readTimestamp, TIMESTAMP_PATTERN } from "../../modules/records/timestamps.rules.ts";
import { conditionsOf, orderId } from "../../modules/stores/customers.rules.ts";
import type { ImpactFilter } from "../../modules/stores/customers.rules.ts";
import { STORE_LISTS } from "../../modules/stores/storeLists.ts";
import type { StoreList } from "../../modules/stores/storeLists.ts";
import type { Description } from "../http/endpoint.ts";
import { listEndpoint, pageOrAll } from "../http/listEndpoints.ts";
import { firstDay, integerUpTo, startOfDay } from "../http/listPages.ts";
import { responseObject, optional, wholeNumber } from "../http/parseRequest.ts";
import type { RequestContext } from "../http/requestContext.ts";
import type { AppContext } from "../context.ts";
import { customerFilterOf, customerParameters, KIND_NAMES, unlessBlank } from "./fields.ts";

const DEFAULT_LIMIT = 20;
const MAXIMUM_LIMIT = 100;

export const limitParameter = integerUpTo(MAXIMUM_LIMIT, { default: DEFAULT_LIMIT })
  .default(DEFAULT_LIMIT)
  .describe(
    `Page size; ${DEFAULT_LIMIT} by default. More than ${MAXIMUM_LIMIT} is read as ${MAXIMUM_LIMIT}.`,
  );

export const pageFields = {
  has_more: z.boolean(),
  next_cursor: z.string().describe("Empty on the last page."),
};

/** Returns functions that read a list: a page of it, and the rows of a file. */
export const readsOf = <Json extends z.ZodObject>(
  list: StoreList<Json>,
  { db, bulkLists }: Pick<AppContext, "db" | "bulkLists">,
  ctx: RequestContext,
  owner: AccountMode,
  filter: ImpactFilter,
  { after, limit }: ListPart<string>,
) => {
  const read = (maximum: number) => list.list(db, owner, filter, { after, limit: maximum });
  return {
    readPage: async () => {
      // One more than the page holds reveals whether there are more.
      const found = await read(limit + 1);
      const rows = found.slice(0, limit);
      const last = found.length > limit ? rows.at(-1) : undefined;
      return { rows, has_more: last !== undefined, next_cursor: last ? list.cursorOf(last) : "" };
    },
    rows: () =>
      pageOrAll(
        ctx,
        ["limit"],
        () => read(limit),
        () => list.readAll(bulkLists, owner, filter, after),
      ),
  };
};

const cursorParameter = z
  .string()
  .transform((given) => readTimestamp(given, "up"))
  .pipe(z.string({ error: "must be a timestamp such as 2025-06-01T12:00:00.123456Z" }))
  .optional()
  .meta({
    pattern: TIMESTAMP_PATTERN,
    description:
      "The next_cursor of the previous page, or any ISO 8601 timestamp (UTC without an offset): the page starts with the newest older record.",
  });

const listQuery = z.object({
  ...customerParameters,
  order_id: optional(
    orderId(),
    "The order, with or without its #. In a URL, write # as %23.",
    "1001",
  ),
  start_date: firstDay("The first day, UTC."),
  end_date: optional(
    date(),
    "The day after the last one, UTC; its records are not included.",
    "2025-07-01",
  ),
  limit: limitParameter,
  after_created_at: cursorParameter,
});

const impactFilterOf = (query: z.output<typeof listQuery>): ImpactFilter => ({
  ...customerFilterOf(query),
  orderId: unlessBlank(query.order_id),
  from: query.start_date ? startOfDay(query.start_date) : undefined,
  until: query.end_date ? startOfDay(query.end_date) : undefined,
});

/** Builds the endpoint of a list, whose name is also that of its file: a page of JSON, or all of it for a file. */
const buildList = <Json extends z.ZodObject>(
  { db, reads, bulkLists, streaming }: AppContext,
  list: StoreList<Json>,
  path: string,
  { name, id, ...description }: Description & { readonly name: string; readonly id: string },
) => {
  const response = responseObject(id, {
    [name]: z.array(list.json),
    count: wholeNumber().describe("Records on this page."),
    ...pageFields,
  });
  return listEndpoint(streaming, path, {
    ...description,
    details: `${description.details ?? ""} CSV and NDJSON have all of them, unless limit is given.`,
    errors: ["query_timeout"],
    schemas: { query: listQuery, response },
    exported: { name, columns: list.columns },
    handle: ({ ctx, owner, query }) => {
      const { limit, after_created_at: after = null } = query;
      const filter = impactFilterOf(query);
      // Many records may have to be read to find those of a customer or an order.
      const isSearch = conditionsOf({ ...filter, from: undefined, until: undefined }).length > 0;
      const pools = { db: isSearch ? reads : db, bulkLists };
      const { readPage, rows } = readsOf(list, pools, ctx, owner, filter, { after, limit });
      return {
        json: async () => {
          const { rows: page, ...next } = await readPage();
          return { [name]: page, count: page.length, ...next };
        },
        rows,
      };
    },
  });
};

export const storeListEndpoint = (kind: Kind, context: AppContext) => {
  const { path, title, plural, listField } = KIND_NAMES[kind];
  return buildList(context, STORE_LISTS[plural], path, {
    operationId: `list${title}s`,
    tag: plural,
    name: listField,
    id: `${title}Records`,
    summary: `List the store's ${plural}`,
    details:
      "Returns the records in the key's mode that match every filter, newest first. Empty filters are ignored.",
  });
};

export const donationListEndpoint = (context: AppContext) =>
  buildList(context, STORE_LISTS.donations, "/app/api/charity/donations", {
    operationId: "listDonations",
    tag: "donations",
    name: "donations",
    id: "DonationRecords",
    summary: "List the store's donations",
    details:
      "Returns the donations in the key's mode that match every filter, newest first, including refunded ones. Empty " +
      "filters are ignored.",
  });
