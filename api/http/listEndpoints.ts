import type { z } from "zod";
import { EXPORT_FORMATS } from "../../runtime/formatRows.ts";
import type { ExportFormat } from "../../runtime/formatRows.ts";
import { inChunks } from "../../runtime/inChunks.ts";
import { accountModeKey } from "../../modules/records/owner.rules.ts";
import type { Gate } from "../../runtime/gate.ts";
import { leaveDoor } from "../../runtime/server/openDoor.ts";
import { callerOf } from "./requestContext.ts";
import type { RequestContext } from "./requestContext.ts";
import { buildKeyEndpoint } from "./endpoint.ts";
import type { Description, Endpoint, KeyDefinition } from "./endpoint.ts";
import { parseQueryString } from "./parseRequest.ts";
import { EXPORT_HEADERS, exportChunks, requestedFormat } from "./listExports.ts";
import type { ListExport } from "./listExports.ts";
import { limitPages, LINK_HEADER, listJson } from "./listPages.ts";
import type { RowLinks, SearchedRows } from "./listPages.ts";
import { streamText } from "./streamText.ts";

/** How lists are sent. */
export type Streaming = {
  /** For the lists that are being sent: each holds a page in memory. */
  readonly gate: Gate;
  /** The connection of a client that accepts nothing for this time is closed. */
  readonly writeTimeoutMs: number;
  /** A page of a list ends after a search of this time. */
  readonly pageSearchMs: number;
};

const stream = async (
  ctx: RequestContext,
  chunks: () => AsyncIterable<string>,
  { gate, writeTimeoutMs }: Streaming,
): Promise<void> => {
  leaveDoor(ctx.req);
  ctx.state.gate = gate;
  await gate.run(accountModeKey(callerOf(ctx)), async () => {
    // The client may have gone while the list waited.
    if (!ctx.res.destroyed) {
      await streamText(ctx, chunks(), writeTimeoutMs);
    }
  });
};

/** Ends a list when its client has disconnected. While a search finds nothing, nothing is written that would fail. */
async function* whileConnected<Page>(
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

/** Responds to HEAD without reading the list. */
const sendHead = (ctx: RequestContext, format: ExportFormat | null): void => {
  ctx.status = 200;
  ctx.type = format === null ? "application/json" : EXPORT_FORMATS[format].contentType;
};

const describeExported = (
  description: Description,
  headers: Readonly<Record<string, string>>,
): Description => ({
  ...description,
  errors: {
    ...description.errors,
    queue_full:
      "Too many requests are waiting to read records, or this one takes too long. Try again, or select fewer records.",
  },
  isExported: true,
  responseHeaders: { ...description.responseHeaders, ...headers, ...EXPORT_HEADERS },
});

/** A list that is sent whole, or as one page. */
type PagedList = {
  /** How many rows the page has at most; null for the whole list. */
  readonly limit: number | null;
  /** The list from the first row of the response on. */
  readonly rows: () => AsyncIterable<SearchedRows>;
  /** Returns the JSON before the rows, which opens the array that they are in. */
  readonly readHead: () => Promise<string>;
};

/**
 * Defines an endpoint whose response is a list: whole, or page by page, as JSON, CSV or NDJSON. It may be too long to be held
 * in memory.
 */
export const pagedListEndpoint = <Query extends z.ZodType, ResponseBody extends z.ZodType>(
  definition: KeyDefinition<Query, z.ZodType, ResponseBody, PagedList> &
    RowLinks & { readonly exported: ListExport },
  {
    streaming,
    publicBaseUrl,
  }: { readonly streaming: Streaming; readonly publicBaseUrl: () => string },
): Endpoint => {
  const { exported, idField, startParameter, linkParameters, ...rest } = definition;
  const description = describeExported(rest.description, LINK_HEADER);
  const chunksOf = (
    ctx: RequestContext,
    format: ExportFormat | null,
    { limit, rows, readHead }: PagedList,
  ): AsyncIterable<string> => {
    const pages = limitPages(ctx, whileConnected(ctx, rows()), {
      limit,
      searchMs: streaming.pageSearchMs,
      idField,
      startParameter,
      linkParameters,
      baseUrl: publicBaseUrl(),
    });
    return format === null
      ? inChunks(listJson(readHead, pages))
      : exportChunks(ctx, format, exported, pages);
  };
  return buildKeyEndpoint({ ...rest, description }, async (ctx, handle) => {
    const format = requestedFormat(ctx);
    if (ctx.method === "HEAD") {
      sendHead(ctx, format);
    } else {
      await stream(ctx, () => chunksOf(ctx, format, handle()), streaming);
    }
  });
};

/** A document with a page of a list, which is also a file. */
type Document<Body> = {
  readonly body: () => Promise<Body>;
  /** The rows of the document as clients see them. */
  readonly page: () => Promise<Iterable<object>>;
  /** All rows; absent if the document has them. */
  readonly all?: (() => AsyncIterable<Iterable<object>>) | undefined;
};

async function* onePage(read: Document<unknown>["page"]): AsyncGenerator<Iterable<object>, void> {
  yield await read();
}

/** Defines an endpoint whose response is a JSON document with a page of a list, or CSV or NDJSON with all of it. */
export const exportableKeyEndpoint = <Query extends z.ZodType, ResponseBody extends z.ZodType>(
  definition: KeyDefinition<Query, z.ZodType, ResponseBody, Document<z.output<ResponseBody>>> & {
    readonly exported: ListExport;
    /** The parameters of a page. If one is given, a file has only this page. */
    readonly pageParameters: readonly string[];
  },
  streaming: Streaming,
): Endpoint => {
  const { exported, pageParameters, ...rest } = definition;
  const description = describeExported(rest.description, {});
  return buildKeyEndpoint({ ...rest, description }, async (ctx, handle) => {
    const { body, page, all } = handle();
    const format = requestedFormat(ctx);
    if (ctx.method === "HEAD") {
      sendHead(ctx, format);
    } else if (format === null) {
      ctx.body = await body();
    } else {
      const query = parseQueryString(ctx.querystring);
      const isOfPage = pageParameters.some((name) => query[name] !== undefined);
      const rows = all === undefined || isOfPage ? onePage(page) : all();
      await stream(ctx, () => exportChunks(ctx, format, exported, rows), streaming);
    }
  });
};
