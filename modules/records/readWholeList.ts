import { positionOf } from "./listPositions.sql.ts";
import type { ListPosition, PositionedRow } from "./listPositions.sql.ts";

/** Which part of a list a query reads. */
export type ListPart = { readonly after: ListPosition | null; readonly limit: number };

/**
 * Yields a list in pages. No connection is held between two pages.
 * @param options.start the position that the first page follows; null for the beginning
 * @param options.rows of one page
 */
export async function* readWholeList<Row extends PositionedRow>(
  list: (part: ListPart) => Promise<readonly Row[]>,
  {
    start = null,
    rows = 500,
  }: { readonly start?: ListPosition | null; readonly rows?: number } = {},
): AsyncGenerator<readonly Row[], void, void> {
  let after = start;
  let page: readonly Row[];
  do {
    page = await list({ after, limit: rows });
    yield page;
    after = positionOf(page.at(-1));
  } while (page.length === rows);
}
