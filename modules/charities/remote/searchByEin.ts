import type { Charity, Ein } from "../charities.rules.ts";
import { nameWords } from "../charitySearch.rules.ts";
import type { CharityPage, CharityProvider, CharityQuery } from "../provider.ts";

const matchesName = (charity: Charity, name: string): boolean => {
  const { phrase } = nameWords(charity.name);
  return nameWords(name).words.every((word) => phrase.includes(word));
};

/** Searches by EIN, which has at most one result; a given name must match it too. */
export const searchByEin = async (
  findByEin: CharityProvider["findByEin"],
  ein: Ein,
  { name, page }: CharityQuery,
  signal: AbortSignal,
): Promise<CharityPage> => {
  const charity = await findByEin(ein, signal);
  const matches =
    charity !== null && (name === null || matchesName(charity, name)) ? [charity] : [];
  return {
    items: page === 1 ? matches : [],
    totalItems: matches.length,
    totalIsExact: true,
  };
};
