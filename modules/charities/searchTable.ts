import type { CommonQueryMethods, DatabasePoolConnection } from "slonik";
import type { NameMatch } from "./catalogueSearch.sql.ts";
import { countCharities, findHighestSimilarity, listCharities } from "./catalogueSearch.sql.ts";
import type { CatalogueCharity } from "./charities.sql.ts";
import { catalogueWords, nameWords } from "./charitySearch.rules.ts";
import type { CharityPage, CharityQuery } from "./provider.ts";

/** A page of the table `charity`. */
type TablePage = Omit<CharityPage, "items"> & { readonly items: readonly CatalogueCharity[] };

const NO_MATCHES: TablePage = { items: [], totalItems: 0, totalIsExact: true };

/** A misspelled name means the most similar names and those that are nearly as similar. */
const NEARLY_AS_SIMILAR = 0.9;

/**
 * Searches the catalogue's table for names that have words which begin with those of the search; only if there are none, for
 * similar names.
 * @param throwIfAborted called between queries
 */
export const searchTable = async (
  connection: DatabasePoolConnection,
  { name, ein, page, pageSize }: CharityQuery,
  throwIfAborted: () => void,
): Promise<TablePage> => {
  const offset = (page - 1) * pageSize;
  const read = async (db: CommonQueryMethods, match: NameMatch | null): Promise<TablePage> => {
    throwIfAborted();
    const query = { name: match, ein };
    const totalItems = await countCharities(db, query);
    throwIfAborted();
    const items =
      offset < totalItems ? await listCharities(db, query, { offset, limit: pageSize }) : [];
    return { items, totalItems, totalIsExact: true };
  };

  if (name === null) {
    return read(connection, null);
  }
  const { phrase, words } = catalogueWords(name);
  // The catalogue has no letters of other scripts.
  if (phrase === "" || phrase !== nameWords(name).phrase) {
    return NO_MATCHES;
  }
  const found = await read(connection, { by: "words", phrase, words });
  if (found.totalItems > 0) {
    return found;
  }
  return connection.transaction(async (transaction) => {
    for (const resemblance of ["part", "whole"] as const) {
      throwIfAborted();
      const highest = await findHighestSimilarity(transaction, phrase, resemblance, ein);
      if (highest !== null) {
        return read(transaction, {
          by: "similarity",
          phrase,
          resemblance,
          minimum: highest * NEARLY_AS_SIMILAR,
        });
      }
    }
    return NO_MATCHES;
  });
};
