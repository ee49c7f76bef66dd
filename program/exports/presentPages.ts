/** Yields the rows of each page of a list that is searched, in which some pages find nothing. */
export async function* rowsOf<Row>(
  pages: AsyncIterable<{ readonly rows: readonly Row[] }>,
): AsyncGenerator<readonly Row[], void, void> {
  for await (const { rows } of pages) {
    yield rows;
  }
}

/** Yields the pages of a list with each row as clients see it. */
export async function* presentPages<Row>(
  pages: AsyncIterable<readonly Row[]>,
  present: (row: Row) => object,
): AsyncGenerator<readonly object[], void, void> {
  for await (const page of pages) {
    yield page.map((row) => present(row));
  }
}
