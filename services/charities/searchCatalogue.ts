import type { DatabasePool } from "slonik";
import { readSearchName } from "../../domain/charities/charitySearch.ts";
import { createCatalogue } from "../../providers/charities/catalogue/createCatalogue.ts";
import type { CharityPage } from "../../providers/charities/provider.ts";

/** An operator may wait longer than a client. */
const ANSWER_WITHIN_MS = 60_000;

/**
 * Searches the built-in catalogue, whichever provider the accounts have; a name that is an EIN is searched for as one.
 * @throws CharityProviderError when the search takes too long
 */
export const searchCatalogue = (
  { db }: { readonly db: DatabasePool },
  name: string,
  { page, pageSize }: { readonly page: number; readonly pageSize: number },
): Promise<CharityPage> =>
  createCatalogue({ db, searches: db }).search(
    { ...readSearchName(name), page, pageSize },
    AbortSignal.timeout(ANSWER_WITHIN_MS),
  );
