import type { z } from "zod";
import { EXPORT_FORMATS, formatPages } from "../../runtime/formatRows.ts";
import type { ExportFormat } from "../../runtime/formatRows.ts";
import { inChunks } from "../../runtime/inChunks.ts";
import { Gate } from "../../runtime/gate.ts";
import { runAt } from "./requestContext.ts";
import type { RequestContext } from "./requestContext.ts";
import { keyEndpoint } from "./endpoint.ts";
import type { Definition, Endpoint } from "./endpoint.ts";
import { parseQueryString } from "./parseRequest.ts";
import { streamText } from "./streamText.ts";

export type Streaming = {
  /** For the lists that are being sent: each holds a page in memory. */
  readonly gate: Gate;
  readonly writeTimeoutMs: number;
  readonly pageSearchMs: number;
};

/** Of lists that are sent at the same time. Each may hold a megabyte until its client has read it. */
const MAXIMUM_LISTS = 64;

export const createListGate = (): Gate => new Gate({ places: MAXIMUM_LISTS });

const FORMATS = ["csv", "excel", "ndjson"] as const satisfies readonly ExportFormat[];
const JSON_TYPES = new Set(["*/*", "application/*", "application/json"]);

/**
 * Returns the format that `Accept` prefers, or null for JSON. A format other than JSON must be named, so that clients
 * that accept anything, or nothing that we have, get JSON as ever.
 */
const requestedFormat = (ctx: RequestContext): ExportFormat | null => {
  ctx.vary("Accept");
  for (const type of ctx.accepts().map((accepted) => accepted.toLowerCase())) {
    if (JSON_TYPES.has(type)) {
      return null;
    }
    const format = FORMATS.find((each) => EXPORT_FORMATS[each].mediaType === type);
    if (format !== undefined) {
      return format;
    }
  }
  return null;
};

type ListExport = {
  readonly name: string;
  /** The fields that CSV has, with a dot in the path of a field within a field. */
  readonly columns: readonly string[];
};

/** Yields the pages of an export. An error before the first chunk is an error response, which has none of its headers. */
async function* exportPages(
  ctx: RequestContext,
  format: ExportFormat,
  { name, columns }: ListExport,
  pages: AsyncIterable<Iterable<object>>,
): AsyncGenerator<Iterable<string>, void, void> {
  const { contentType, extension } = EXPORT_FORMATS[format];
  ctx.type = contentType;
  ctx.set("Content-Disposition", `attachment; filename="${name}.${extension}"`);
  yield* formatPages(format, columns, pages);
}

/** A list in a response: as a JSON document with a page of it, or as a JSON text that may be long; and as a file. */
type List<Body> = {
  readonly json: () => Promise<Body> | AsyncIterable<Iterable<string>>;
  /** The rows of a file, as clients see them, in pages. */
  readonly rows: () => AsyncIterable<Iterable<object>>;
};

const isText = (json: unknown): json is AsyncIterable<Iterable<string>> =>
  typeof json === "object" && json !== null && Symbol.asyncIterator in json;

/** Returns the rows of a file: only the page, if the request has a parameter of a page, and otherwise all. */
export async function* pageOrAll(
  { querystring }: RequestContext,
  pageParameters: readonly string[],
  page: () => Promise<Iterable<object>>,
  all: () => AsyncIterable<Iterable<object>>,
): AsyncGenerator<Iterable<object>, void, void> {
  const query = parseQueryString(querystring);
  if (pageParameters.some((name) => query[name] !== undefined)) {
    yield await page();
  } else {
    yield* all();
  }
}

/** Defines an endpoint whose response is a list, as JSON, CSV or NDJSON. It may be too long to be held in memory. */
export const listEndpoint = <Query extends z.ZodType, ResponseBody extends z.ZodType>(
  { gate, writeTimeoutMs }: Streaming,
  path: string,
  {
    exported,
    handle,
    ...definition
  }: Definition<Query, z.ZodType, ResponseBody, List<z.output<ResponseBody>>> & {
    readonly exported: ListExport;
  },
): Endpoint =>
  keyEndpoint<z.ZodType, ResponseBody, Query>("get", path, {
    ...definition,
    errors: [
      ...(definition.errors ?? []),
      [
        "queue_full",
        "Too many requests are waiting to read records, or this one takes too long. Try again, or select fewer records.",
      ],
    ],
    isExported: true,
    responseHeaders: {
      ...definition.responseHeaders,
      "Content-Disposition": "The name of the file. Only of CSV and NDJSON.",
    },
    handle: async (request) => {
      const { ctx, caller } = request;
      const format = requestedFormat(ctx);
      if (ctx.method === "HEAD") {
        ctx.status = 200;
        ctx.type = format === null ? "application/json" : EXPORT_FORMATS[format].contentType;
        return null;
      }
      const { json, rows } = handle(request);
      const pieces = format === null ? json() : exportPages(ctx, format, exported, rows());
      if (!isText(pieces)) {
        return pieces;
      }
      await runAt(ctx, caller, gate, async () => {
        // The client may have gone while the list waited.
        if (!ctx.res.destroyed) {
          await streamText(ctx, inChunks(pieces), writeTimeoutMs);
        }
      });
      return null;
    },
  });
