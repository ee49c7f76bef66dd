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
import { catalogueWords, MINIMUM_SEARCH_LENGTH } from "../../../domain/charities/charitySearch.ts";
import type { CharityPage, CharityProvider, CharityQuery } from "../provider.ts";
import { CharityProviderError } from "../provider.ts";
import { describeNtee } from "./nteeGroups.ts";

const ID_PREFIX = "irs_";

const SUBORDINATE = "9";

/** The name of a group's subordinate is the group's; only the sort name tells it from its sisters. */
const nameOf = ({ name, knownAs, sortName, affiliation }: CatalogueCharity): string => {
  if (knownAs !== "") {
    return knownAs;
  }
  return affiliation === SUBORDINATE && sortName !== "" ? `${name} (${sortName})` : name;
};

const present = (charity: CatalogueCharity): Charity => ({
  nonprofitId: `${ID_PREFIX}${charity.ein}`,
  name: nameOf(charity),
  ein: charity.ein,
  description: [describeNtee(charity.ntee), charity.city, charity.state].filter(Boolean).join(", "),
  website: charity.website,
  iconUrl: "",
});

const NOTHING: CharityPage = { items: [], totalItems: 0, totalIsExact: true };

const refuseLate = (signal: AbortSignal): void => {
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
    refuseLate(signal);
    const totalItems = await countCharities(db, query);
    refuseLate(signal);
    const offset = (page - 1) * pageSize;
    const items =
      offset < totalItems ? await listCharities(db, query, { offset, limit: pageSize }) : [];
    return { items: items.map(present), totalItems, totalIsExact: true };
  };
  if (name === null) {
    return list(null);
  }
  const words = catalogueWords(name);
  if (words.phrase.length < MINIMUM_SEARCH_LENGTH) {
    return NOTHING;
  }
  const found = await list({ by: "words", search: words });
  // Only where nobody is called so: a typo's neighbours would spoil an honest answer.
  return found.totalItems > 0 ? found : list({ by: "likeness", search: words });
};

/**
 * The built-in catalogue: offline, with exact totals. Its ids are `irs_` and the EIN.
 * @param deps.searches where it is searched: a common word keeps a connection busy for most of a second
 */
export const createCatalogue = ({
  db,
  searches,
}: {
  readonly db: CommonQueryMethods;
  readonly searches: DatabasePool;
}): CharityProvider => {
  const findByEin: CharityProvider["findByEin"] = async (ein) => {
    const charity = await findEligibleCharity(db, ein);
    return charity && present(charity);
  };

  return {
    name: "catalogue",
    findByEin,
    findById: async (nonprofitId, signal) => {
      const ein =
        nonprofitId.startsWith(ID_PREFIX) && parseEin(nonprofitId.slice(ID_PREFIX.length));
      return ein ? findByEin(ein, signal) : null;
    },
    search: async (query, signal) => {
      try {
        // Whoever gave up in the queue leaves at once: an error here would cost the pool its connection.
        const found = await searches.connect(async (connection) =>
          signal.aborted ? null : search(connection, query, signal),
        );
        if (found === null) {
          throw new CharityProviderError("No connection for the search came free in time.");
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
