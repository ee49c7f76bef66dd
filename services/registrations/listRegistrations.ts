import type { DatabasePool } from "slonik";
import type { CopyPool } from "../../db/copyPool.ts";
import type { ListPage, PageLimits } from "../../db/registrations/registrationPages.ts";
import { readPage } from "../../db/registrations/registrationPages.ts";
import { readTotals } from "../../db/registrations/totals.ts";
import type { Clock } from "../../domain/clock.ts";
import type {
  Owner,
  RegistrationFilter,
  Totals,
} from "../../domain/registrations/registrations.ts";

/**
 * What one page may contain. COPY plans each page anew, which takes as long as reading some hundred rows. A page counts
 * against the memory of a client that reads slowly, so it has few bytes; one registration may have more, 725 KiB.
 */
const PAGE_LIMITS: PageLimits = { rows: 2500, bytes: 768 * 1024 };

async function* readPages(
  copies: CopyPool,
  owner: Owner,
  filter: RegistrationFilter,
): AsyncGenerator<readonly Buffer[], void, void> {
  let page: ListPage | null = null;
  do {
    const after: ListPage["last"] | null = page?.last ?? null;
    page = await readPage(copies, owner, filter, after, PAGE_LIMITS);
    if (page && page.json.length > 0) {
      yield page.json;
    }
  } while (page);
}

/**
 * Lists an owner's registrations, newest first, with the owner's totals, which ignore the filter. Each page is the JSON of
 * its objects, separated by commas. Memory use is constant, and no connection is held between two pages, so a slow
 * client blocks nothing. Each page reads a bounded number of registrations, also with a filter that few of them match.
 */
export const listRegistrations = async (
  {
    db,
    copies,
    clock,
  }: { readonly db: DatabasePool; readonly copies: CopyPool; readonly clock: Clock },
  owner: Owner,
  filter: RegistrationFilter,
): Promise<{ readonly totals: Totals; readonly pages: AsyncIterable<readonly Buffer[]> }> => ({
  totals: await readTotals(db, owner, clock.now()),
  pages: readPages(copies, owner, filter),
});
