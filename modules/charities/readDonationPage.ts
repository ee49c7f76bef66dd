import type { CommonQueryMethods } from "slonik";
import { countDonations, listDonations, listDonationsAfter } from "./donations.sql.ts";
import { listDonationMonths } from "./donationTotals.sql.ts";
import type { AccountMode } from "../records/owner.rules.ts";
import type { Donation, DonationFilter } from "./donations.rules.ts";
import type { ListedDonation } from "./donations.sql.ts";
import { positionOf } from "../records/listPositions.sql.ts";

type Page = { readonly offset: number; readonly limit: number };

type DonationPage = {
  /** The number of donations on all pages. */
  readonly totalItems: number;
  readonly donations: readonly Donation[];
};

/** The donations of a filter that were recorded in one month. */
type Part = { readonly filter: DonationFilter; readonly count: number };

const rangeOfMonth = (month: string): { readonly from: Date; readonly until: Date } => {
  const from = new Date(`${month}-01T00:00:00.000Z`);
  const until = new Date(from);
  until.setUTCMonth(until.getUTCMonth() + 1);
  return { from, until };
};

/** Divides the donations of a filter by dates into months, newest first. Counts only the months that it has in part. */
const listParts = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
): Promise<readonly Part[]> => {
  const parts: Part[] = [];
  for (const { month, count } of await listDonationMonths(db, owner)) {
    const whole = rangeOfMonth(month);
    const from = filter.from && filter.from > whole.from ? filter.from : whole.from;
    const until = filter.until && filter.until < whole.until ? filter.until : whole.until;
    if (from === whole.from && until === whole.until) {
      parts.push({ filter: { ...filter, until }, count });
    } else if (from < until) {
      parts.push({
        filter: { ...filter, until },
        count: await countDonations(db, owner, { from, until }),
      });
    }
  }
  return parts;
};

/**
 * Reads a page of an owner's donations, newest first. The totals say how many each month has, so that donations are counted
 * and skipped in single months only. There are no totals for filters by attribution or metadata.
 */
export const readDonationPage = async (
  db: CommonQueryMethods,
  owner: AccountMode,
  filter: DonationFilter,
  { offset, limit }: Page,
): Promise<DonationPage> => {
  if (filter.attribution !== undefined || filter.metadataKey !== undefined) {
    const [totalItems, donations] = await Promise.all([
      countDonations(db, owner, filter),
      listDonations(db, owner, filter, { offset, limit }),
    ]);
    return { totalItems, donations };
  }
  let totalItems = 0;
  let first: { readonly filter: DonationFilter; readonly offset: number } | undefined;
  for (const part of await listParts(db, owner, filter)) {
    if (offset < totalItems + part.count) {
      first ??= { filter: part.filter, offset: offset - totalItems };
    }
    totalItems += part.count;
  }
  return {
    totalItems,
    donations: first
      ? await listDonations(db, owner, first.filter, { offset: first.offset, limit })
      : [],
  };
};

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
