import type { CommonQueryMethods } from "slonik";
import type { ImpactPosition } from "../../domain/stores/customers.ts";
import type { ApiContext } from "../http/apiContext.ts";
import type { Streaming } from "../http/endpoint.ts";
import { onePage, presentPages, selectsPage } from "../http/exports.ts";
import { writeCursor } from "./cursor.ts";
import { toPage } from "./pagination.ts";

export type ListDependencies = {
  /** Connections for reads that may be slow. */
  readonly db: CommonQueryMethods;
  readonly streaming: Streaming;
};

/** What the descriptions of lists say about their other formats. */
export const EXPORT_DETAILS = "CSV and NDJSON have all of them, unless limit is given.";

/** How many records an export reads at a time. */
const EXPORT_ROWS = 500;

type Positioned = { readonly id: string; readonly position: string };
type Part = { readonly after: ImpactPosition | null; readonly limit: number };

/** Yields all records that follow a position, in pages. No connection is held between two pages. */
async function* readAll<Row extends Positioned>(
  list: (part: Part) => Promise<readonly Row[]>,
  start: ImpactPosition | null,
): AsyncGenerator<readonly Row[], void, void> {
  let after: ImpactPosition | null = start;
  let page: readonly Row[];
  do {
    page = await list({ after, limit: EXPORT_ROWS });
    yield page;
    const last = page.at(-1);
    after = last ? { createdAt: last.position, id: last.id } : null;
  } while (page.length === EXPORT_ROWS);
}

/** Reads a list of the store interface as a page of JSON, or whole for a file. */
export const readStoreList = <Row extends Positioned, Presented extends object, Body>(
  ctx: ApiContext,
  { limit, after }: { readonly limit: number; readonly after: ImpactPosition | null },
  {
    list,
    present,
    presentPage,
  }: {
    readonly list: (part: Part) => Promise<readonly Row[]>;
    readonly present: (row: Row) => Presented;
    readonly presentPage: (
      rows: Presented[],
      page: { readonly count: number; readonly has_more: boolean; readonly next_cursor: string },
    ) => Body;
  },
): {
  readonly readBody: () => Promise<Body>;
  readonly readPages: () => AsyncIterable<readonly object[]>;
} => ({
  readBody: async () => {
    const { page, last } = toPage(await list({ after, limit: limit + 1 }), limit);
    return presentPage(page.map(present), {
      count: page.length,
      has_more: last !== undefined,
      next_cursor: last === undefined ? "" : writeCursor(last),
    });
  },
  readPages: () =>
    presentPages(
      selectsPage(ctx, ["limit"]) ? onePage(list({ after, limit })) : readAll(list, after),
      present,
    ),
});
