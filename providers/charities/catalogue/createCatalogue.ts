import type { CommonQueryMethods, DatabasePool } from "slonik";
import { StatementTimeoutError } from "slonik";
import type { CatalogueCharity, NameMatch } from "../../../db/charities/charities.ts";
import {
  countCharities,
  findEligibleCharity,
  listCharities,
} from "../../../db/charities/charities.ts";
import type { Charity } from "../../../domain/charities/charities.ts";
import { parseEin } from "../../../domain/charities/charities.ts";
import {
  catalogueWords,
  MINIMUM_SEARCH_LENGTH,
  nameWords,
} from "../../../domain/charities/charitySearch.ts";
import type { CharityPage, CharityProvider, CharityQuery, LocalCharities } from "../provider.ts";
import { CharityProviderError } from "../provider.ts";
import { describeNtee } from "./nteeGroups.ts";

const ID_PREFIX = "irs_";

const SUBORDINATE = "9";

/** A subordinate carries the name of its group; only the sort name distinguishes it from the others. */
const nameOf = ({ name, knownAs, sortName, affiliation }: CatalogueCharity): string => {
  if (knownAs !== "") {
    return knownAs;
  }
  return affiliation === SUBORDINATE && sortName !== "" ? `${name} (${sortName})` : name;
};

const toCharity = (charity: CatalogueCharity): Charity => ({
  nonprofitId: `${ID_PREFIX}${charity.ein}`,
  name: nameOf(charity),
  ein: charity.ein,
  description: [describeNtee(charity.ntee), charity.city, charity.state].filter(Boolean).join(", "),
  website: charity.website,
  iconUrl: charity.iconUrl,
});

const NO_MATCHES: CharityPage = { items: [], totalItems: 0, totalIsExact: true };

const throwIfAborted = (signal: AbortSignal): void => {
  if (signal.aborted) {
    throw new CharityProviderError("The search took too long.");
  }
};

const search = async (
  db: CommonQueryMethods,
  { name, ein, page, pageSize }: CharityQuery,
  signal: AbortSignal,
): Promise<CharityPage> => {
  const list = async (match: NameMatch | null): Promise<CharityPage> => {
    const query = { name: match, ein };
    throwIfAborted(signal);
    const totalItems = await countCharities(db, query);
    throwIfAborted(signal);
    const offset = (page - 1) * pageSize;
    const items =
      offset < totalItems ? await listCharities(db, query, { offset, limit: pageSize }) : [];
    return { items: items.map(toCharity), totalItems, totalIsExact: true };
  };
  if (name === null) {
    return list(null);
  }
  const words = catalogueWords(name);
  const isShort = words.words.join("").length < MINIMUM_SEARCH_LENGTH;
  // Letters of other scripts are not among the words: without them, a short rest would match anything.
  if (words.phrase === "" || (isShort && words.phrase !== nameWords(name).phrase)) {
    return NO_MATCHES;
  }
  if (isShort) {
    return list({ by: "wholeWords", search: words });
  }
  const found = await list({ by: "words", search: words });
  // Similar names would only add noise to exact matches.
  return found.totalItems > 0 ? found : list({ by: "similarity", search: words });
};

/**
 * The built-in catalogue: the `charity` table, filled from the IRS's public Business Master File. Totals are exact; ids
 * are `irs_` and the EIN.
 * @param deps.searches connections for searches: a common word occupies one for most of a second
 */
export const createCatalogue = ({
  db,
  searches,
}: {
  readonly db: CommonQueryMethods;
  readonly searches: DatabasePool;
}): CharityProvider => {
  const findByEin: LocalCharities["findByEin"] = async (ein) => {
    const charity = await findEligibleCharity(db, ein);
    return charity && toCharity(charity);
  };

  const findById: LocalCharities["findById"] = async (nonprofitId) => {
    const ein = nonprofitId.startsWith(ID_PREFIX) && parseEin(nonprofitId.slice(ID_PREFIX.length));
    return ein ? findByEin(ein) : null;
  };

  return {
    name: "catalogue",
    findByEin,
    findById,
    local: { findByEin, findById, isComplete: true },
    search: async (query, signal) => {
      try {
        // An error thrown in here would make the pool discard the connection, so an abort in the queue returns null.
        const found = await searches.connect(async (connection) =>
          signal.aborted ? null : search(connection, query, signal),
        );
        if (found === null) {
          throw new CharityProviderError("No connection for the search became free in time.");
        }
        return found;
      } catch (error) {
        if (error instanceof StatementTimeoutError) {
          throw new CharityProviderError("The search took too long.", { cause: error });
        }
        throw error;
      }
    },
  };
};
