import type { CommonQueryMethods } from "slonik";
import type { BalanceEntry } from "./balances.sql.ts";
import { listBalanceEntries } from "./balances.sql.ts";

/** How many entries one query reads. */
const PAGE_ROWS = 500;

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
