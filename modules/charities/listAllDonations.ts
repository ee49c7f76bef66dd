import type { CommonQueryMethods } from "slonik";
import { positionOf } from "../records/listPositions.sql.ts";
import { readWholeList } from "../records/readWholeList.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import { listDonations } from "./donations.sql.ts";
import type { ListedDonation } from "./donations.sql.ts";
import type { DonationFilter } from "./donations.rules.ts";

/** Of a page. Each donation may have 64 KiB of metadata, and a slow client holds a page in memory. */
const ROWS = 100;

/** Yields all of an owner's donations, newest first, in pages. No connection is held between two pages. */
export const listAllDonations = (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
): AsyncGenerator<readonly ListedDonation[], void, void> =>
  readWholeList((part) => listDonations(db, owner, filter, part), positionOf, { rows: ROWS });
