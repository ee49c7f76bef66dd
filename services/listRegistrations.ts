import type { DatabasePool } from "slonik";
import type { ListPosition } from "../db/registrations.ts";
import { readPageAsJson } from "../db/registrations.ts";
import { readTotals } from "../db/totals.ts";
import type { Clock } from "../domain/clock.ts";
import type { Owner, RegistrationFilter, Totals } from "../domain/registrations.ts";

/** About a quarter of a megabyte of JSON: few round trips, little memory. */
const PAGE_ROWS = 1000;

async function* readPages(
  db: DatabasePool,
  owner: Owner,
  filter: RegistrationFilter,
): AsyncGenerator<string, void, void> {
  let after: ListPosition | null = null;
  for (;;) {
    const page: Awaited<ReturnType<typeof readPageAsJson>> = await readPageAsJson(
      db,
      owner,
      filter,
      { after, size: PAGE_ROWS },
    );
    if (!page) {
      return;
    }
    yield after ? `,${page.json}` : page.json;
    after = page.last;
  }
}

/**
 * Lists an owner's registrations, newest first, and the owner's totals, whatever the filter. `json` yields the text of
 * the list's objects piece by piece, commas included, in constant memory; between two pieces no connection is held, so
 * a slow reader costs nothing.
 */
export const listRegistrations = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  owner: Owner,
  filter: RegistrationFilter,
): Promise<{ readonly totals: Totals; readonly json: AsyncIterable<string> }> => ({
  totals: await readTotals(db, owner, clock.now()),
  json: readPages(db, owner, filter),
});
