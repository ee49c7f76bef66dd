/** Yields the pages of a list with each row as clients see it, once it is needed. */
export async function* presentPages<Row>(
  pages: AsyncIterable<Iterable<Row>>,
  present: (row: Row) => object,
): AsyncGenerator<Iterable<object>, void, void> {
  for await (const page of pages) {
    yield Iterator.from(page).map((row) => present(row));
  }
}

/** Yields the rows of each page of a list that is searched, in which some pages find nothing. */
export async function* rowsOf<Row>(
  pages: AsyncIterable<{ readonly rows: Iterable<Row> }>,
): AsyncGenerator<Iterable<Row>, void, void> {
  for await (const { rows } of pages) {
    yield rows;
  }
}

export async function* presentSearched<Row, Shown, Last>(
  pages: AsyncIterable<{ readonly rows: Iterable<Row>; readonly last: Last }>,
  present: (row: Row) => Shown,
): AsyncGenerator<{ readonly rows: Iterable<Shown>; readonly last: Last }, void, void> {
  for await (const { rows, last } of pages) {
    yield { rows: Iterator.from(rows).map((row) => present(row)), last };
  }
}
