/** Yields the pages of a list with each row as clients see it, once it is needed. */
export async function* presentPages<Row>(
  pages: AsyncIterable<Iterable<Row>>,
  present: (row: Row) => object,
): AsyncGenerator<Iterable<object>, void, void> {
  for await (const page of pages) {
    yield Iterator.from(page).map((row) => present(row));
  }
}

/** A page of a list that is searched, in which some pages find nothing. */
export type SearchedPage<Row, Last> = {
  readonly rows: Iterable<Row>;
  /** The last row that was read, whether it matches or not; null if none was, or if it is known that none follows. */
  readonly last: Last | null;
};

export async function* rowsOf<Row>(
  pages: AsyncIterable<{ readonly rows: Iterable<Row> }>,
): AsyncGenerator<Iterable<Row>, void, void> {
  for await (const { rows } of pages) {
    yield rows;
  }
}

export async function* presentSearched<Row, Shown, Last>(
  pages: AsyncIterable<SearchedPage<Row, Last>>,
  present: (row: Row) => Shown,
): AsyncGenerator<SearchedPage<Shown, Last>, void, void> {
  for await (const { rows, last } of pages) {
    yield { rows: Iterator.from(rows).map((row) => present(row)), last };
  }
}
