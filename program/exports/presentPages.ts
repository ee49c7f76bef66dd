/** Yields the pages of a list with each row as clients see it. */
export async function* presentPages<Row>(
  pages: AsyncIterable<readonly Row[]>,
  present: (row: Row) => object,
): AsyncGenerator<readonly object[], void, void> {
  for await (const page of pages) {
    yield page.map((row) => present(row));
  }
}
