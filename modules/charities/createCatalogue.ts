import type { CommonQueryMethods } from "slonik";
import { createLookups } from "../../db/batching/joinCalls.ts";
import type { CatalogueCharity } from "./catalogue.sql.ts";
import { listEligibleCharities, searchCatalogue } from "./catalogue.sql.ts";
import type { Charity, CharityIds, Ein } from "./charities.rules.ts";
import { catalogueWords, nameWords, parseEin } from "./charities.rules.ts";
import type { CharityProvider, CharityQuery } from "./provider.ts";
import { NO_MATCHES } from "./provider.ts";

/** The major groups of the National Taxonomy of Exempt Entities, by the first letter of a code (IRS, eo_info.pdf). */
const GROUPS: Readonly<Record<string, string>> = {
  A: "Arts, culture and humanities",
  B: "Education",
  C: "Environment",
  D: "Animals",
  E: "Health care",
  F: "Mental health and crisis intervention",
  G: "Diseases and disorders",
  H: "Medical research",
  I: "Crime and legal matters",
  J: "Employment",
  K: "Food, agriculture and nutrition",
  L: "Housing and shelter",
  M: "Public safety and disaster relief",
  N: "Recreation and sports",
  O: "Youth development",
  P: "Human services",
  Q: "International affairs",
  R: "Civil rights and advocacy",
  S: "Community improvement",
  T: "Philanthropy and grantmaking",
  U: "Science and technology",
  V: "Social science",
  W: "Public and societal benefit",
  X: "Religion",
  Y: "Mutual benefit",
};

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
  description: [GROUPS[charity.ntee.slice(0, 1)], charity.city, charity.state]
    .filter(Boolean)
    .join(", "),
  website: charity.website,
  iconUrl: "",
});

/** Returns the EIN by which a charity is looked up; null if it has an id that no charity has. */
const einOf = ({ ein, nonprofitId }: CharityIds): Ein | null => {
  if (nonprofitId === null) {
    return ein;
  }
  return nonprofitId.startsWith(ID_PREFIX) ? parseEin(nonprofitId.slice(ID_PREFIX.length)) : null;
};

/** Searches for names that have words which begin with those of the search; only if there are none, for similar names. */
const search = async (db: CommonQueryMethods, { name, ein, page, pageSize }: CharityQuery) => {
  const words = name === null ? null : catalogueWords(name);
  // The catalogue has no letters of other scripts.
  if (words && (words.phrase === "" || words.phrase !== nameWords(name ?? "").phrase)) {
    return NO_MATCHES;
  }
  const slice = { offset: (page - 1) * pageSize, limit: pageSize };
  let found = await searchCatalogue(db, { name: words, ein, match: "words" }, slice);
  if (found.totalItems === 0 && words) {
    found = await searchCatalogue(db, { name: words, ein, match: "similar" }, slice);
  }
  return { ...found, items: found.items.map(toCharity) };
};

/**
 * The built-in catalogue: the `charity` table, filled from the IRS's Business Master File. Ids are `irs_` and the EIN.
 * @param searches connections for searches, which may take tens of milliseconds
 */
export const createCatalogue = (
  db: CommonQueryMethods,
  searches: CommonQueryMethods,
): CharityProvider => {
  const findByEin = createLookups(async (eins) => {
    const found = await listEligibleCharities(db, eins);
    return new Map(found.map((charity) => [charity.ein, toCharity(charity)]));
  });
  const find = async (ids: CharityIds): Promise<Charity | null> => {
    const ein = einOf(ids);
    return ein === null ? null : findByEin(ein);
  };

  return { name: "catalogue", find, findKnown: find, search: (query) => search(searches, query) };
};
