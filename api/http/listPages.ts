import { z } from "zod";
import { date } from "../../modules/records/fields.rules.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { rowsOf } from "../../runtime/presentPages.ts";
import type { SearchedPage } from "../../runtime/presentPages.ts";
import type { Streaming } from "./listEndpoints.ts";
import type { RequestContext } from "./requestContext.ts";
import { optional } from "./parseRequest.ts";

export const startOfDay = (day: string): Date => new Date(`${day}T00:00:00.000Z`);

/** Returns the start of the day after; undefined for 9999-12-31, because no later day can be written. */
export const startOfNextDay = (day: string): Date | undefined =>
  day === "9999-12-31" ? undefined : new Date(startOfDay(day).getTime() + DAY_MS);

export const firstDay = (description = "First day, UTC.") =>
  optional(date(), description, "2025-06-01");

/** The parameter with the last day of a range, which belongs to it. */
export const lastDay = (description = "Last day, UTC.") =>
  optional(date(), description, "2025-06-30");

/** Returns the times from the start of the first day to the end of the last; either may be open. */
export const rangeOfDays = (first: string | undefined, last: string | undefined) => ({
  from: first === undefined ? undefined : startOfDay(first),
  until: last === undefined ? undefined : startOfNextDay(last),
});

const MAXIMUM_LIMIT = 1000;
/** Of lists that are always sent in pages, for requests without a limit. */
const DEFAULT_LIMIT = 100;
const LIMIT_MUST_BE = "must be an integer of at least 1";

/** A page ends early if its rows have more bytes than this, because they are held in memory. */
const PAGE_BYTES = 768 * 1024;

/** A page ends after a search of this time. Clients and proxies commonly wait 30 or 60 seconds for a response. */
export const PAGE_SEARCH_MS = 5000;

/**
 * An integer in a query, from 1; more than the maximum is read as the maximum. Its default and examples are metadata
 * here, because JSON Schema generation drops those of a transform.
 */
export const integerUpTo = (
  maximum: number,
  metadata: { readonly default?: number; readonly examples?: number[] } = {},
) =>
  z
    .string({ error: LIMIT_MUST_BE })
    .regex(/^0*[1-9]\d*$/u, LIMIT_MUST_BE)
    .meta({ type: "integer", minimum: 1, ...metadata })
    .transform((given) => Math.min(Number(given), maximum));

export const defaultedLimit = (items: string) =>
  integerUpTo(MAXIMUM_LIMIT, { default: DEFAULT_LIMIT })
    .default(DEFAULT_LIMIT)
    .describe(
      `The most ${items} of the response, ${DEFAULT_LIMIT} if it is omitted. More than ${MAXIMUM_LIMIT} is read as ${MAXIMUM_LIMIT}.`,
    );

/** The parameter that asks for a page of a list that is otherwise sent whole: how many records it has. */
export const pageLength = () =>
  optional(
    integerUpTo(MAXIMUM_LIMIT, { examples: [100] }),
    `Returns one page of at most this many records, and a Link to the next one. More than ${MAXIMUM_LIMIT} is read as ` +
      `${MAXIMUM_LIMIT}. A page can have fewer records, even none, and a Link. Without it, the response has all records.`,
  );

export const pageStart = () =>
  optional(
    z.string(),
    "The id of a record. The response has the records that follow it in the list.",
  );

export const LINK_HEADER = {
  Link: 'The URL of the next page, as `<…>; rel="next"`. Absent on the last page, and of the whole list.',
};

async function* untilClosed<Page>(
  { res }: RequestContext,
  pages: AsyncIterable<Page>,
): AsyncGenerator<Page, void, void> {
  for await (const page of pages) {
    if (res.destroyed) {
      return;
    }
    yield page;
  }
}

/**
 * Reads the first rows of a list: at most `limit`, fewer if they are large or if the search for them takes long.
 * @returns `last`: the row after which the next page begins; null if there is none
 */
const readRows = async <Row, Last>(
  pages: AsyncIterable<SearchedPage<Row, Last>>,
  limit: number,
  searchMs: number,
): Promise<{ readonly rows: readonly Row[]; readonly last: Row | Last | null }> => {
  const endsAtMs = performance.now() + searchMs;
  const rows: Row[] = [];
  let bytes = 0;
  for await (const page of pages) {
    for (const row of page.rows) {
      bytes += Buffer.byteLength(JSON.stringify(row));
      if (rows.length === limit || (rows.length > 0 && bytes > PAGE_BYTES)) {
        return { rows, last: rows.at(-1) ?? null };
      }
      rows.push(row);
    }
    if (page.last !== null && performance.now() >= endsAtMs) {
      return { rows, last: page.last };
    }
  }
  return { rows, last: null };
};

/** What Node accepts in a request's query and a link must not have. */
const UNSAFE_IN_LINK = /["<>]/gu;

/**
 * Sets the link to the next page: this request's URL with other values of parameters. The others are as the client has
 * encoded them, so that the link is not much longer than the request: a client or a proxy may accept no longer headers.
 */
export const setNextLink = (
  ctx: RequestContext,
  baseUrl: string,
  parameters: Readonly<Record<string, string>>,
): void => {
  const isReplaced = (part: string): boolean =>
    [...new URLSearchParams(part).keys()].some((name) => Object.hasOwn(parameters, name));
  const kept = ctx.querystring
    .split("&")
    .filter((part) => part !== "" && !isReplaced(part))
    .map((part) => part.replaceAll(UNSAFE_IN_LINK, encodeURIComponent));
  const query = [...kept, new URLSearchParams({ ...parameters }).toString()].join("&");
  ctx.set("Link", `<${baseUrl}${ctx.path}?${query}>; rel="next"`);
};

/**
 * Yields the JSON of a list. Each later page without rows is a space, so that proxies do not mistake a long search for an
 * idle connection.
 */
async function* listJson(
  readHead: () => Promise<string>,
  pages: AsyncIterable<Iterable<object>>,
): AsyncGenerator<Iterable<string>, void, void> {
  let rowCount = 0;
  function* rowsJson(rows: Iterable<object>): Generator<string, void, void> {
    for (const row of rows) {
      yield `${rowCount === 0 ? "" : ","}${JSON.stringify(row)}`;
      rowCount += 1;
    }
  }
  let isFirst = true;
  for await (const page of pages) {
    if (isFirst) {
      yield [await readHead()];
    }
    const before = rowCount;
    yield rowsJson(page);
    if (rowCount === before && !isFirst) {
      yield [" "];
    }
    isFirst = false;
  }
  yield [isFirst ? await readHead() : "", "]}"];
}

/** A list that is sent whole, or as one page. */
type PagedList<Row, Last> = {
  /** How many rows the page has at most; null for the whole list. */
  readonly limit: number | null;
  /** The list from the first row of the response on. */
  readonly found: () => AsyncIterable<SearchedPage<Row, Last>>;
  /** Returns the JSON before the rows, which opens the array that they are in. */
  readonly readHead: () => Promise<string>;
  /** Returns the parameters of the link to the page after a row. */
  readonly linkOf: (last: Row | Last) => Readonly<Record<string, string>>;
};

/** Returns a list whole, or only its first page if there is a limit, with the header `Link` if another page follows. */
export const pagedList = <Row extends object, Last>(
  ctx: RequestContext,
  {
    streaming,
    publicBaseUrl,
  }: { readonly streaming: Streaming; readonly publicBaseUrl: () => string },
  { limit, found, readHead, linkOf }: PagedList<Row, Last>,
) => {
  async function* rows(): AsyncGenerator<Iterable<Row>, void, void> {
    // While a search finds nothing, nothing is written that would fail when the client has disconnected.
    const pages = untilClosed(ctx, found());
    if (limit === null) {
      yield* rowsOf(pages);
      return;
    }
    const page = await readRows(pages, limit, streaming.pageSearchMs);
    if (page.last !== null) {
      setNextLink(ctx, publicBaseUrl(), linkOf(page.last));
    }
    yield page.rows;
  }
  return { json: () => listJson(readHead, rows()), rows };
};
