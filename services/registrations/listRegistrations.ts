import type { CommonQueryMethods } from "slonik";
import type { CopyPool } from "../../db/copyPool.ts";
import type { ListPosition } from "../../db/listPositions.ts";
import type { ListPage, RowSeparator } from "../../db/registrations/registrationPages.ts";
import { findListPosition, readPage, ROW_END } from "../../db/registrations/registrationPages.ts";
import { readTotals } from "../../db/registrations/totals.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import type {
  Owner,
  RegistrationFilter,
  Totals,
} from "../../domain/registrations/registrations.ts";

/**
 * What one page may contain. COPY plans each page anew, which takes as long as reading some hundred rows. A page counts
 * against the memory of a client that reads slowly, so it has few bytes; one registration may have more, 725 KiB.
 */
const PAGE_ROWS = 2500;
const PAGE_BYTES = 768 * 1024;
/** While lists yield to what clients record. Planning takes a third of the time of such a page. */
const YIELDING_PAGE_ROWS = 250;

export const STARTING_AFTER_UNKNOWN =
  "starting_after: is not the id of a registration in this list";

/** Which part of a list to read. */
export type ListPart = {
  /** The id of the registration that the part follows; null for the list's beginning. */
  readonly startingAfter: string | null;
  /** How many registrations are shown; null for all. One more is read, to find out whether more follow. */
  readonly limit: number | null;
};

/**
 * Returns the position in a list after a registration.
 * @param id null for the list's beginning
 * @throws DomainError request_invalid if the owner has no such registration
 */
const getListPosition = async (
  db: CommonQueryMethods,
  owner: Owner,
  id: string | null,
): Promise<ListPosition | null> => {
  if (id === null) {
    return null;
  }
  const position = await findListPosition(db, owner, id);
  if (!position) {
    throw new DomainError("request_invalid", STARTING_AFTER_UNKNOWN);
  }
  return position;
};

async function* readPages(
  copies: CopyPool,
  owner: Owner,
  filter: RegistrationFilter,
  start: ListPosition | null,
  rows: number,
  separator: RowSeparator,
): AsyncGenerator<readonly Buffer[], void, void> {
  let after = start;
  let page: ListPage | null;
  do {
    const limits = {
      rows: copies.isYielding() ? Math.min(rows, YIELDING_PAGE_ROWS) : rows,
      bytes: PAGE_BYTES,
    };
    // The first page does not wait, since most lists have one.
    const isBulk = after !== start;
    page = await readPage(copies, owner, filter, { after, limits, separator, isBulk });
    after = page?.last ?? null;
    if (page) {
      yield page.json;
    }
  } while (page && !page.isLast);
}

/**
 * Lists an owner's registrations, newest first, with the owner's totals, which ignore the filter. Each page is the JSON of
 * its objects, separated by commas; a page in which the filter matches nothing is empty. Memory use is constant, and no
 * connection is held between two pages, so a slow client blocks nothing. Each page reads a bounded number of
 * registrations, also with a filter that few of them match.
 * @param startingAfter the id of the registration that the list follows; null for all
 * @throws DomainError request_invalid if the owner has no such registration
 */
export const listRegistrations = async (
  {
    db,
    copies,
    clock,
  }: { readonly db: CommonQueryMethods; readonly copies: CopyPool; readonly clock: Clock },
  owner: Owner,
  filter: RegistrationFilter,
  startingAfter: string | null,
): Promise<{ readonly totals: Totals; readonly pages: AsyncIterable<readonly Buffer[]> }> => {
  const start = await getListPosition(db, owner, startingAfter);
  return {
    totals: await readTotals(db, owner, clock.now()),
    pages: readPages(copies, owner, filter, start, PAGE_ROWS, ","),
  };
};

/** Splits a page whose objects end with `ROW_END`, except the last. */
const splitRows = (chunks: readonly Buffer[]): readonly Buffer[] => {
  const page = Buffer.concat(chunks);
  const rows: Buffer[] = [];
  let start = 0;
  for (let end = page.indexOf(ROW_END); end >= 0; end = page.indexOf(ROW_END, start)) {
    rows.push(page.subarray(start, end));
    start = end + 1;
  }
  return [...rows, page.subarray(start)];
};

/**
 * Lists an owner's registrations like `listRegistrations`, as pages of rows: the JSON of one registration each.
 * @throws DomainError request_invalid if the owner has no registration `startingAfter`
 */
export async function* listRegistrationRows(
  { db, copies }: { readonly db: CommonQueryMethods; readonly copies: CopyPool },
  owner: Owner,
  filter: RegistrationFilter,
  { startingAfter, limit }: ListPart,
): AsyncGenerator<readonly Buffer[], void, void> {
  const start = await getListPosition(db, owner, startingAfter);
  // A filter of metadata is applied after the limit of rows, so it needs whole pages.
  const rows =
    limit === null || filter.metadata !== undefined ? PAGE_ROWS : Math.min(limit + 1, PAGE_ROWS);
  for await (const page of readPages(copies, owner, filter, start, rows, ROW_END)) {
    if (page.length > 0) {
      yield splitRows(page);
    }
  }
}
