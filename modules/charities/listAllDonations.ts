import type { CommonQueryMethods } from "slonik";
import type { ListedDonation } from "./donations.sql.ts";
import { listDonationsAfter } from "./donations.sql.ts";
import { positionOf } from "../records/listPositions.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { DonationFilter } from "./donations.rules.ts";

/** What one query reads, so that a slow client holds a bounded amount of memory. */
const PAGE_LIMITS = { rows: 500, bytes: 256 * 1024 };

/** Yields all of an owner's donations, newest first, in pages. No connection is held between two pages. */
export async function* listAllDonations(
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
): AsyncGenerator<readonly ListedDonation[], void, void> {
  let page: readonly ListedDonation[] = [];
  do {
    page = await listDonationsAfter(db, owner, filter, positionOf(page.at(-1)), PAGE_LIMITS);
    yield page;
  } while (page.length > 0);
}
