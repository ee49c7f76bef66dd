import type { Charity, Ein } from "../../../domain/charities/charities.ts";
import { nameWords } from "../../../domain/charities/charitySearch.ts";
import type { CharityPage, CharityProvider, CharityQuery } from "../provider.ts";

const isCalled = (charity: Charity, name: string): boolean => {
  const { phrase } = nameWords(charity.name);
  return nameWords(name).words.every((word) => phrase.includes(word));
};

/** A search with an EIN has at most one result; a name that is given too must fit it. */
export const searchByEin = async (
  findByEin: CharityProvider["findByEin"],
  ein: Ein,
  { name, page }: CharityQuery,
  signal: AbortSignal,
): Promise<CharityPage> => {
  const charity = await findByEin(ein, signal);
  const matches = charity !== null && (name === null || isCalled(charity, name)) ? [charity] : [];
  return {
    items: page === 1 ? matches : [],
    totalItems: matches.length,
    totalIsExact: true,
  };
};
