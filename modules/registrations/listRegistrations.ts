import type { CommonQueryMethods } from "slonik";
import type { Owner } from "../records/owner.rules.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import type { ListPage } from "./registrationPages.sql.ts";
import {
  findListPosition,
  readPage,
  hasShortPages,
  readShortPage,
  SHORT_PAGE_ROWS,
} from "./registrationPages.sql.ts";
import { readTotals } from "./totals.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { RegistrationFilter, Totals, Registration } from "./registrations.rules.ts";
import type { ListContext } from "./context.ts";

/**
 * What one page may contain. COPY plans each page anew, which takes as long as reading some hundred rows. A page counts
 * against the memory of a client that reads slowly, so it has few bytes; one registration may have more, 725 KiB.
 */
const PAGE_ROWS = 2500;
const PAGE_BYTES = 768 * 1024;
/** While lists yield to what clients record. Planning takes a third of the time of such a page. */
const YIELDING_PAGE_ROWS = 250;

const AFTER_UNKNOWN = "after: is not the id of a registration in this list";

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
    throw invalidRequest(AFTER_UNKNOWN);
  }
  return position;
};

/** What one query of a list has read. */
export type SearchedPage<Row, Last> = {
  /** The rows that match; there may be none. */
  readonly rows: Iterable<Row>;
  /** The last row, whether it matches or not; null if none was read, or if it is known that none follows. */
  readonly last: Last | null;
};

/**
 * Lists an owner's registrations, newest first; a page in which the filter matches nothing is empty. Memory use is constant,
 * and no connection is held between two pages, so a slow client blocks nothing. Each page reads a bounded number of
 * registrations, also with a filter that few of them match.
 *
 * A part of few registrations is a short page, unless their JSON is long.
 */
export const listRegistrations = (
  { db, copies, clock }: ListContext,
  owner: Owner,
  filter: RegistrationFilter,
  { startingAfter, limit }: ListPart,
): {
  /** May throw a DomainError request_invalid: the owner has no registration `startingAfter`. */
  readonly pages: AsyncGenerator<SearchedPage<Registration, { readonly id: string }>, void, void>;
  /** Returns the owner's totals, which ignore the filter. To be called when the first page has been read, which may have them. */
  readonly readTotals: () => Promise<Totals>;
} => {
  let totals: Totals | null = null;
  const readShort = async (after: ListPosition | null, rows: number): Promise<ListPage | null> => {
    const limits = { rows, bytes: PAGE_BYTES };
    const now = clock.now();
    const read = await readShortPage(db, owner, filter, { after, limits, now });
    ({ totals } = read);
    return read.page;
  };
  const copy = (after: ListPosition | null, isBulk: boolean): Promise<ListPage | null> => {
    // A filter of metadata is applied after the limit of rows, so it needs whole pages.
    const most =
      limit === null || filter.metadata !== undefined ? PAGE_ROWS : Math.min(limit + 1, PAGE_ROWS);
    const rows = copies.isYielding() ? Math.min(most, YIELDING_PAGE_ROWS) : most;
    const limits = { rows, bytes: PAGE_BYTES };
    return readPage(copies, owner, filter, { after, limits, isBulk });
  };
  async function* readPages(): ReturnType<typeof listRegistrations>["pages"] {
    const start = await getListPosition(db, owner, startingAfter);
    const rowsOfId = filter.id === undefined ? null : SHORT_PAGE_ROWS;
    const rows = limit === null ? rowsOfId : limit + 1;
    // The first page does not wait for its turn, since most lists have one.
    let page = await (rows !== null && rows <= SHORT_PAGE_ROWS && hasShortPages(filter, start)
      ? readShort(start, rows)
      : copy(start, false));
    while (page) {
      yield { rows: page.registrations, last: page.isLast ? null : page.last };
      page = page.isLast ? null : await copy(page.last, true);
    }
  }
  return {
    pages: readPages(),
    readTotals: async () => totals ?? (await readTotals(db, owner, clock.now())),
  };
};
