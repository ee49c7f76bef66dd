import type { ListPosition, PositionedRow } from "../../modules/records/listPositions.sql.ts";
import type { RequestContext } from "../http/requestContext.ts";
import { presentPages } from "../../runtime/exports/presentPages.ts";
import type { ListPart } from "../../modules/records/readWholeList.ts";
import { readWholeList } from "../../modules/records/readWholeList.ts";
import { onePage, selectsPage } from "../http/listExports.ts";
import { toPage } from "./pagination.ts";

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
