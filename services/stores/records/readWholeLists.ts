import type { CommonQueryMethods } from "slonik";
import { positionOf } from "../../../db/listPositions.ts";
import type { ListPosition, PositionedRow } from "../../../db/listPositions.ts";
import type { BalanceEntry } from "../../../db/stores/balances.ts";
import { listBalanceEntries } from "../../../db/stores/balances.ts";

/** How many records one query reads. */
const PAGE_ROWS = 500;

/** Which part of a list a query reads. */
export type ListPart = { readonly after: ListPosition | null; readonly limit: number };

/** Yields all of a store's records that follow a position, in pages. No connection is held between two pages. */
export async function* readWholeList<Row extends PositionedRow>(
  list: (part: ListPart) => Promise<readonly Row[]>,
  start: ListPosition | null,
): AsyncGenerator<readonly Row[], void, void> {
  let after: ListPosition | null = start;
  let page: readonly Row[];
  do {
    page = await list({ after, limit: PAGE_ROWS });
    yield page;
    after = positionOf(page.at(-1));
  } while (page.length === PAGE_ROWS);
}

/** Yields all of a store's ledger that precedes an entry, newest first, in pages. */
export async function* readWholeLedger(
  db: CommonQueryMethods,
  storeId: string,
  start: string | null,
): AsyncGenerator<readonly BalanceEntry[], void, void> {
  let before = start;
  let page: readonly BalanceEntry[];
  do {
    page = await listBalanceEntries(db, storeId, { before, limit: PAGE_ROWS });
    yield page;
    before = page.at(-1)?.id ?? null;
  } while (page.length === PAGE_ROWS);
}
