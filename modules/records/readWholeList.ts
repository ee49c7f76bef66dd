/** Which part of a list a query reads: the rows that follow a position, or those from the first on. */
export type ListPart<Position> = { readonly after: Position | null; readonly limit: number };

/**
 * Yields a list in pages. No connection is held between two pages.
 * @param options.start the position that the first page follows; null for the beginning
 */
export async function* readWholeList<Row, Position>(
  list: (part: ListPart<Position>) => Promise<readonly Row[]>,
  positionOf: (row: Row) => Position,
  { start = null, rows = 500 }: { readonly start?: Position | null; readonly rows?: number } = {},
): AsyncGenerator<readonly Row[], void, void> {
  let after = start;
  let page: readonly Row[];
  do {
    page = await list({ after, limit: rows });
    yield page;
    const last = page.at(-1);
    after = last === undefined ? null : positionOf(last);
  } while (page.length === rows);
}
