import type { CommonQueryMethods } from "slonik";
import type { NameMatch } from "../../../db/charities/catalogueSearch.ts";
import {
  countCharities,
  listCharities,
  listClosestCharities,
} from "../../../db/charities/catalogueSearch.ts";
import type { CatalogueCharity } from "../../../db/charities/charities.ts";
import { findCatalogueWords, listWordsWith } from "../../../db/charities/charityWords.ts";
import {
  catalogueWords,
  MINIMUM_SEARCH_LENGTH,
  nameWords,
  spellingsOf,
} from "../../../domain/charities/charitySearch.ts";
import type { CharityPage, CharityQuery } from "../provider.ts";

/** More matches are not compared with each other. Nobody reads 50 pages to find a charity. */
const COUNTED_MATCHES = 1000;
/** Looking up a word takes a microsecond or two in each tier. */
const WORDS_WITH_PART = 200;

/** A page of the table `charity`. */
type TablePage = Omit<CharityPage, "items"> & { readonly items: readonly CatalogueCharity[] };

const NO_MATCHES: TablePage = { items: [], totalItems: 0, totalIsExact: true };

/**
 * Returns each word of a search with the words from which a typo may have made it. Words that the catalogue has are
 * correct, unless it has all of them.
 */
const findSpellings = async (
  db: CommonQueryMethods,
  words: readonly string[],
): Promise<readonly (readonly string[])[]> => {
  const spellings = words.map((word) => [word, ...spellingsOf(word)]);
  const known = await findCatalogueWords(db, [...new Set(spellings.flat())]);
  const areAllKnown = words.every((word) => known.has(word));
  return words.map((word, index) =>
    known.has(word) && !areAllKnown
      ? [word]
      : [...new Set(spellings[index])].filter((spelling) => known.has(spelling)),
  );
};

/**
 * Searches the catalogue's table: for whole words, parts of words, words that differ by a typo, and similar names.
 * @param throwIfAborted called between queries
 */
export const searchTable = async (
  db: CommonQueryMethods,
  { name, ein, page, pageSize }: CharityQuery,
  throwIfAborted: () => void,
): Promise<TablePage> => {
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
  const list = async (match: NameMatch): Promise<TablePage> => {
    throwIfAborted();
    const rows = await listClosestCharities(db, { name: match, ein }, counted + 1, {
      offset,
      limit: pageSize,
    });
    const totalItems = rows[0]?.total ?? (offset === 0 ? 0 : await count(match));
    return totalItems > COUNTED_MATCHES
      ? listByTiers(match, totalItems)
      : { items: rows, totalItems, totalIsExact: true };
  };

  if (name === null) {
    return listByTiers(null, await count(null));
  }
  const { phrase, words } = catalogueWords(name);
  const isShort = words.join("").length < MINIMUM_SEARCH_LENGTH;
  // Letters of other scripts are not among the words: without them, a short rest would match anything.
  if (phrase === "" || (isShort && phrase !== nameWords(name).phrase)) {
    return NO_MATCHES;
  }

  /** Returns null if there are few matches, of which a search for parts may find more. */
  const listMany = async (
    alternatives: readonly (readonly string[])[],
  ): Promise<TablePage | null> => {
    const match: NameMatch = { by: "words", phrase, words: alternatives };
    const totalItems = await count(match);
    return totalItems > COUNTED_MATCHES
      ? { ...(await listByTiers(match, totalItems)), totalIsExact: false }
      : null;
  };

  const wholeWords = words.map((word) => [word]);
  if (isShort) {
    return list({ by: "words", phrase, words: wholeWords });
  }
  const many =
    (await listMany(wholeWords)) ??
    (words.length === 1
      ? await listMany([await listWordsWith(db, phrase, WORDS_WITH_PART)])
      : null);
  if (many !== null) {
    return many;
  }
  const found = await list({ by: "parts", phrase, parts: words });
  // Similar names would only add noise to exact matches.
  if (found.totalItems > 0) {
    return found;
  }
  const spellings = await findSpellings(db, words);
  const corrected = spellings.every((alternatives) => alternatives.length > 0)
    ? await list({ by: "words", phrase, words: spellings })
    : NO_MATCHES;
  return corrected.totalItems > 0 ? corrected : list({ by: "similarity", phrase });
};
