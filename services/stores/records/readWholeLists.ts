import type { CommonQueryMethods } from "slonik";
import type { BalanceEntry } from "../../../db/stores/balances.ts";
import { listBalanceEntries } from "../../../db/stores/balances.ts";
import type { ImpactPosition } from "../../../domain/stores/customers.ts";

/** How many records one query reads. */
const PAGE_ROWS = 500;

/** Which part of a list a query reads. */
export type ListPart = { readonly after: ImpactPosition | null; readonly limit: number };

/** Yields all of a store's records that follow a position, in pages. No connection is held between two pages. */
export async function* readWholeList<
  Row extends { readonly id: string; readonly position: string },
>(
  list: (part: ListPart) => Promise<readonly Row[]>,
  start: ImpactPosition | null,
): AsyncGenerator<readonly Row[], void, void> {
  let after: ImpactPosition | null = start;
  let page: readonly Row[];
  do {
    page = await list({ after, limit: PAGE_ROWS });
    yield page;
    const last = page.at(-1);
    after = last ? { createdAt: last.position, id: last.id } : null;
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
