import type { CommonQueryMethods } from "slonik";
import type { CatalogueCharity, NameMatch } from "../../../db/charities.ts";
import { countCharities, findEligibleCharity, listCharities } from "../../../db/charities.ts";
import type { Charity } from "../../../domain/charities.ts";
import { parseEin } from "../../../domain/charities.ts";
import { searchWords } from "../../../domain/charitySearch.ts";
import type { CharityProvider } from "../provider.ts";
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

/** The built-in catalogue: offline, with exact totals. Its ids are `irs_` and the EIN. */
export const createCatalogue = (db: CommonQueryMethods): CharityProvider => {
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
    search: async ({ name, ein, page, pageSize }) => {
      const list = async (match: NameMatch | null) => {
        const query = { name: match, ein };
        const totalItems = await countCharities(db, query);
        const offset = (page - 1) * pageSize;
        const items =
          offset < totalItems ? await listCharities(db, query, { offset, limit: pageSize }) : [];
        return { items: items.map(present), totalItems, totalIsExact: true };
      };
      if (name === null) {
        return list(null);
      }
      const search = searchWords(name);
      const found = await list({ by: "words", search });
      // Only where nobody is called so: a typo's neighbours would spoil an honest answer.
      return found.totalItems > 0 ? found : list({ by: "likeness", search });
    },
  };
};
