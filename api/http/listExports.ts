import type { ExportFormat } from "../../runtime/formatRows.ts";
import { EXPORT_FORMATS, formatHead, formatRows } from "../../runtime/formatRows.ts";
import type { RequestContext } from "./requestContext.ts";
import { inChunks } from "../../runtime/inChunks.ts";

/** A list as a file. */
export type ListExport = {
  /** The file's name without its extension. */
  readonly name: string;
  /** The fields that CSV has, with a dot in the path of a field within a field. */
  readonly columns: readonly string[];
};

/** The header of an export. */
export const EXPORT_HEADERS = {
  "Content-Disposition": "The name of the file. Only of CSV and NDJSON.",
};

const FORMATS = ["csv", "excel", "ndjson"] as const satisfies readonly ExportFormat[];
const JSON_TYPES = new Set(["*/*", "application/*", "application/json"]);

/**
 * Returns the format that `Accept` prefers, or null for JSON. A format other than JSON must be named, so that clients
 * that accept anything, or nothing that we have, get JSON as ever.
 */
export const requestedFormat = (ctx: RequestContext): ExportFormat | null => {
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

/** Yields the pages of an export. An error before the first chunk is an error response, which has none of its headers. */
async function* formatPages(
  ctx: RequestContext,
  format: ExportFormat,
  { name, columns }: ListExport,
  pages: AsyncIterable<Iterable<object>>,
): AsyncGenerator<Iterable<string>, void, void> {
  ctx.type = EXPORT_FORMATS[format].contentType;
  ctx.set(
    "Content-Disposition",
    `attachment; filename="${name}.${EXPORT_FORMATS[format].extension}"`,
  );
  yield [formatHead(format, columns)];
  for await (const page of pages) {
    yield formatRows(format, columns, page);
  }
}

/** Returns the chunks of an export. */
export const exportChunks = (
  ctx: RequestContext,
  format: ExportFormat,
  list: ListExport,
  pages: AsyncIterable<Iterable<object>>,
): AsyncGenerator<string, void, void> => inChunks(formatPages(ctx, format, list, pages));
