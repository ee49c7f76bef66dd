import type { CommonQueryMethods } from "slonik";
import type { Owner } from "../records/owner.rules.ts";
import type { ListPosition } from "../records/listPositions.sql.ts";
import { findListPosition, PAGE_ROWS, readPage } from "./registrationPages.sql.ts";
import { readTotals } from "./totals.sql.ts";
import { invalidRequest } from "../../runtime/errors.rules.ts";
import type { RegistrationFilter, Totals } from "./registrations.rules.ts";
import type { Context } from "../../runtime/context.ts";

/** They count against the memory of a client that reads slowly. One registration may have more, 725 KiB. */
const PAGE_BYTES = 768 * 1024;
/** How many registrations a step of a long list or search reads. PostgreSQL needs about 3 ms for them. */
const STEP_ROWS = 500;

export type ListContext = Context & {
  /** Connections for the pages of lists, which may read many records. */
  readonly lists: CommonQueryMethods;
  /** For the pages after the first of a list, if they yield to recording. */
  readonly bulkLists?: CommonQueryMethods;
};

export type ListPart = {
  /** The id of the registration that the part follows; null for the list's beginning. */
  readonly startingAfter: string | null;
  /** How many registrations are shown; null for all. One more is read, to find out whether more follow. */
  readonly limit: number | null;
};

/**
 * Lists an owner's registrations, newest first; a page in which the filter matches nothing is empty. Memory use is
 * constant, and no connection is held between two pages, so a slow client blocks nothing. Each page reads a bounded number
 * of registrations.
 */
export const listRegistrations = (
  { lists, bulkLists = lists, clock }: ListContext,
  owner: Owner,
  filter: RegistrationFilter,
  { startingAfter, limit }: ListPart,
) => {
  let totals: Totals | null = null;
  // The filter of metadata is applied to the rows of a page.
  const rows =
    limit === null || filter.metadata !== undefined ? STEP_ROWS : Math.min(limit + 1, PAGE_ROWS);
  const limits = { rows, bytes: PAGE_BYTES };
  const read = async (db: CommonQueryMethods, after: ListPosition | null) => {
    const part = { after, limits, now: clock.now() };
    const { page, ...others } = await readPage(db, owner, filter, part);
    totals ??= others.totals;
    return page;
  };
  async function* readPages() {
    const start =
      startingAfter === null ? null : await findListPosition(lists, owner, startingAfter);
    if (startingAfter !== null && start === null) {
      throw invalidRequest("after: is not the id of a registration in this list");
    }
    // The first page does not rest, since most lists have only one.
    let page = await read(lists, start);
    while (page) {
      const { registrations, last, isLast } = page;
      yield { rows: registrations, last: isLast ? null : last };
      page = isLast ? null : await read(bulkLists, last);
    }
  }
  return {
    /** May throw a DomainError request_invalid: the owner has no registration `startingAfter`. */
    pages: readPages(),
    /** Returns the owner's totals, which ignore the filter. To be called when the first page has been read, which may have them. */
    readTotals: async () => totals ?? (await readTotals(lists, owner, clock.now())),
  };
};
