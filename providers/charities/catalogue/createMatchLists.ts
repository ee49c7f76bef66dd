import type { CommonQueryMethods } from "slonik";
import type { NameMatch } from "../../../db/charities/catalogueSearch.ts";
import {
  countCharities,
  listCharities,
  listClosestCharities,
} from "../../../db/charities/catalogueSearch.ts";
import type { CatalogueCharity } from "../../../db/charities/charities.ts";
import type { WordCount, WordGroups } from "../../../domain/charities/wordGroups.ts";
import {
  chooseLookups,
  COMPARISONS,
  estimateMatches,
  frequentWords,
  splitGroups,
} from "../../../domain/charities/wordGroups.ts";
import type { CharityPage, CharityQuery } from "../provider.ts";

/** Beyond this, matches are not ranked by closeness: clients do not read that many pages. */
export const COUNTED_MATCHES = 500;
/** Each is looked up in each tier, and compared with each charity that has the other words of a search. */
export const WORDS_OF_EACH_PART = 4;

/** A page of the table `charity`. */
export type TablePage = Omit<CharityPage, "items"> & {
  readonly items: readonly CatalogueCharity[];
};

/** Groups of words with their numbers of charities. A name must have a word of each group. */
export type CountedGroups = readonly (readonly WordCount[])[];

/**
 * Returns whether to read matches tier by tier, because a page needs few of them. Words of a search occur together more
 * often than by chance, so there are rarely fewer matches than estimated.
 */
export const areProbablyMany = (groups: CountedGroups, maximumWords: number): boolean =>
  estimateMatches(groups.map((counts) => counts.slice(0, maximumWords))) > COUNTED_MATCHES;

/** Lists what one search finds: the closest names first, or if they are too many, those of the first tiers. */
export type MatchLists = {
  /** Lists charities of any name. */
  readonly listAll: () => Promise<TablePage>;
  /**
   * Lists the names with frequent words, in the order of the tiers. Returns null if there are few, of which a search for
   * parts may find more.
   * @param minimum of the matches, if it is known
   */
  readonly listMany: (
    groups: CountedGroups,
    maximumWords: number,
    minimum: number,
  ) => Promise<TablePage | null>;
  /**
   * Lists few matches; of many, those with the frequent words if these are many too.
   * @param firstSet the words of the first set, if they are all that its names must have; listFrequent finds these names
   */
  readonly listFew: (
    match: NameMatch,
    isComplete: boolean,
    firstSet: WordGroups | null,
    listFrequent: (minimum: number) => Promise<TablePage | null>,
  ) => Promise<TablePage>;
  /** Lists the names with a word of each group. */
  readonly listGroups: (groups: CountedGroups) => Promise<TablePage>;
};

/**
 * @param phrase the words of the search; the names that are closest to it are first
 * @param throwIfAborted called between queries
 */
export const createMatchLists = (
  db: CommonQueryMethods,
  { ein, page, pageSize }: Omit<CharityQuery, "name">,
  phrase: string,
  throwIfAborted: () => void,
): MatchLists => {
  const offset = (page - 1) * pageSize;
  // Counting goes on to the end of the page, so that the pages that follow are always announced.
  const counted = Math.max(COUNTED_MATCHES, offset + pageSize);

  const count = async (match: NameMatch | null): Promise<number> => {
    throwIfAborted();
    return countCharities(db, { name: match, ein }, counted + 1);
  };
  const listByTiers = async (match: NameMatch | null, totalItems: number): Promise<TablePage> => {
    throwIfAborted();
    const items =
      offset < totalItems
        ? await listCharities(db, { name: match, ein }, { offset, limit: pageSize })
        : [];
    return { items, totalItems, totalIsExact: totalItems <= counted };
  };

  const totals = new Map<string, number>();
  /** Counts the names that have a word of each group, once in a search, because counting takes most of the time. */
  const countFrequent = async (groups: WordGroups): Promise<number> => {
    const key = JSON.stringify(groups);
    const total = totals.get(key) ?? (await count({ by: "tiers", phrase, words: groups }));
    totals.set(key, total);
    return total;
  };

  const listMany: MatchLists["listMany"] = async (groups, maximumWords, minimum) => {
    const frequent = frequentWords(groups, maximumWords);
    const totalItems = minimum > counted ? minimum : await countFrequent(frequent);
    if (totalItems <= COUNTED_MATCHES) {
      return null;
    }
    const listed = await listByTiers({ by: "tiers", phrase, words: frequent }, totalItems);
    return { ...listed, totalIsExact: false };
  };

  const listFew: MatchLists["listFew"] = async (match, isComplete, firstSet, listFrequent) => {
    throwIfAborted();
    const rows = await listClosestCharities(db, { name: match, ein }, counted + 1, {
      offset,
      limit: pageSize,
    });
    const totalItems = rows[0]?.total ?? (offset === 0 ? 0 : await count(match));
    if (totalItems <= COUNTED_MATCHES) {
      return { items: rows, totalItems, totalIsExact: isComplete };
    }
    const minimum = (firstSet && rows[0]?.totalOfFirstSet) ?? 0;
    if (minimum > 0) {
      totals.set(JSON.stringify(firstSet), minimum);
    }
    const many = (await listFrequent(minimum)) ?? (await listByTiers(match, totalItems));
    return { ...many, totalIsExact: false };
  };

  return {
    listAll: async () => listByTiers(null, await count(null)),
    listMany,
    listFew,
    listGroups: async (groups) => {
      const listFrequent = (minimum: number): Promise<TablePage | null> =>
        listMany(groups, WORDS_OF_EACH_PART, minimum);
      const many = areProbablyMany(groups, WORDS_OF_EACH_PART) ? await listFrequent(0) : null;
      if (many !== null) {
        return many;
      }
      const lookups = chooseLookups(
        groups,
        (counts) => counts,
        (counts) => counts.length > 1,
      );
      const { sets, isComplete } = splitGroups(lookups, null, COMPARISONS.few);
      const parts = groups
        .filter((counts) => !lookups.includes(counts))
        .flatMap((counts) => counts.map(({ word }) => word));
      return listFew(
        { by: "sets", phrase, parts, sets },
        isComplete,
        parts.length === 0 ? (sets[0]?.groups ?? null) : null,
        listFrequent,
      );
    },
  };
};
