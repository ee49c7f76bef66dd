import type { CommonQueryMethods } from "slonik";
import type { NameMatch } from "../../../db/charities/catalogueSearch.ts";
import {
  countCharities,
  listCharities,
  listClosestCharities,
} from "../../../db/charities/catalogueSearch.ts";
import type { CatalogueCharity } from "../../../db/charities/charities.ts";
import {
  findCatalogueWords,
  listCommonWordsWith,
  listRareWordsWith,
} from "../../../db/charities/charityWords.ts";
import {
  catalogueWords,
  MINIMUM_SEARCH_LENGTH,
  nameWords,
} from "../../../domain/charities/charitySearch.ts";
import type { WordCount, WordGroups, WordsWithPart } from "../../../domain/charities/wordGroups.ts";
import {
  chooseLookups,
  COMPARISONS,
  estimateMatches,
  frequentWords,
  splitGroups,
  splitParts,
  sumCharities,
} from "../../../domain/charities/wordGroups.ts";
import type { CharityPage, CharityQuery } from "../provider.ts";
import type { CorrectedWord } from "./correctWords.ts";
import { correctAllTypos, correctTypos, leaveOutRarest, replaceRareWords } from "./correctWords.ts";

/** Beyond this, matches are not ranked by closeness: clients do not read that many pages. */
const COUNTED_MATCHES = 1000;
/**
 * From this estimate on, matches are read tier by tier, because a page needs few of them. Words of a search occur together
 * more often than by chance, so there are seldom fewer.
 */
const PROBABLY_MANY = 1000;
const WORDS_WITH_PART = 200;
/** As many words of one search may be parts of words, so that a long search costs no more than others. */
const MAXIMUM_PARTS = 3;
const MAXIMUM_UNKNOWN_PARTS = 5;
/** Each is looked up in each tier, and compared with each charity that has the other words of a search. */
const WORDS_OF_ONE_PART = 64;
const WORDS_OF_EACH_PART = 4;

const areProbablyMany = (
  groups: readonly (readonly WordCount[])[],
  maximumWords: number,
): boolean =>
  estimateMatches(groups.map((counts) => counts.slice(0, maximumWords))) > PROBABLY_MANY;

/** A page of the table `charity`. */
type TablePage = Omit<CharityPage, "items"> & { readonly items: readonly CatalogueCharity[] };

const NO_MATCHES: TablePage = { items: [], totalItems: 0, totalIsExact: true };

/** Reads the words with each part; of the words of a long search, those that the fewest charities have. */
const readWordsWithParts = async (
  db: CommonQueryMethods,
  words: readonly string[],
  known: ReadonlyMap<string, number>,
): Promise<readonly WordsWithPart[]> => {
  const unknown = Math.min(MAXIMUM_UNKNOWN_PARTS, words.filter((word) => !known.has(word)).length);
  const parts = words
    .toSorted((a, b) => (known.get(a) ?? 0) - (known.get(b) ?? 0))
    .slice(0, Math.max(MAXIMUM_PARTS, unknown));
  const common = await listCommonWordsWith(db, parts, WORDS_WITH_PART + 1);
  const isFull = (part: string): boolean => (common.get(part)?.length ?? 0) > WORDS_WITH_PART;
  const rare = await listRareWordsWith(
    db,
    parts.filter((part) => !isFull(part)),
    WORDS_WITH_PART + 1,
  );
  return words.map((word) => {
    const charities = known.get(word);
    const whole = charities === undefined ? null : { word, charities };
    if (!parts.includes(word)) {
      return { whole, common: whole === null ? [] : [whole], rare: [], isComplete: false };
    }
    return {
      whole,
      common: (common.get(word) ?? []).slice(0, WORDS_WITH_PART),
      rare: (rare.get(word) ?? []).slice(0, WORDS_WITH_PART),
      isComplete: !isFull(word) && (rare.get(word)?.length ?? 0) <= WORDS_WITH_PART,
    };
  });
};

/**
 * Searches the catalogue's table: for whole words, parts of words, words that differ by a typo, and similar words.
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

  if (name === null) {
    return listByTiers(null, await count(null));
  }
  const { phrase, words } = catalogueWords(name);
  const isShort = words.join("").length < MINIMUM_SEARCH_LENGTH;
  // Letters of other scripts are not among the words: without them, a short rest would match anything.
  if (phrase === "" || (isShort && phrase !== nameWords(name).phrase)) {
    return NO_MATCHES;
  }

  const totals = new Map<string, number>();
  /** Counts the names that have a word of each group, once in a search, because counting takes most of the time. */
  const countFrequent = async (groups: WordGroups): Promise<number> => {
    const key = JSON.stringify(groups);
    const total = totals.get(key) ?? (await count({ by: "tiers", phrase, words: groups }));
    totals.set(key, total);
    return total;
  };
  /**
   * Returns null if there are few matches, of which a search for parts may find more.
   * @param minimum of the matches, if it is known
   */
  const listMany = async (
    groups: readonly (readonly WordCount[])[],
    maximumWords: number,
    minimum: number,
  ): Promise<TablePage | null> => {
    const frequent = frequentWords(groups, maximumWords);
    const totalItems = minimum > counted ? minimum : await countFrequent(frequent);
    if (totalItems <= COUNTED_MATCHES) {
      return null;
    }
    const listed = await listByTiers({ by: "tiers", phrase, words: frequent }, totalItems);
    return { ...listed, totalIsExact: false };
  };
  /**
   * Lists few matches; of many, those with the frequent words if these are many too.
   * @param firstSet the words of the first set, if they are all that its names must have; listFrequent finds these names
   */
  const listFew = async (
    match: NameMatch,
    isComplete: boolean,
    firstSet: WordGroups | null,
    listFrequent: (minimum: number) => Promise<TablePage | null>,
  ): Promise<TablePage> => {
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
  const listGroups = async (groups: readonly (readonly WordCount[])[]): Promise<TablePage> => {
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
  };

  const known = await findCatalogueWords(db, words);
  const wholeWords = words.map((word) => {
    const charities = known.get(word);
    return charities === undefined ? [] : [{ word, charities }];
  });
  const areAllKnown = known.size === words.length;
  if (isShort) {
    return areAllKnown ? listGroups(wholeWords) : NO_MATCHES;
  }
  const listWholeWords = async (minimum: number): Promise<TablePage | null> =>
    wholeWords.every((counts) => sumCharities(counts) > COUNTED_MATCHES)
      ? listMany(wholeWords, 1, minimum)
      : null;
  const many = areProbablyMany(wholeWords, 1) ? await listWholeWords(0) : null;
  if (many !== null) {
    return many;
  }
  const parts = await readWordsWithParts(db, words, known);
  const frequent = parts.map(({ common, rare }) => [...common, ...rare]);
  const wordsOfPart = words.length === 1 ? WORDS_OF_ONE_PART : WORDS_OF_EACH_PART;
  const listFrequent = async (minimum: number): Promise<TablePage | null> =>
    (await listWholeWords(minimum)) ?? (await listMany(frequent, wordsOfPart, minimum));
  const manyParts = areProbablyMany(frequent, wordsOfPart) ? await listFrequent(0) : null;
  if (manyParts !== null) {
    return manyParts;
  }
  const listParts = async (maximumComparisons: number): Promise<TablePage> => {
    const { sets, isComplete } = splitParts(parts, maximumComparisons);
    const [first] = sets;
    return first === undefined
      ? NO_MATCHES
      : listFew(
          { by: "sets", phrase, parts: words, sets },
          isComplete,
          words.every((word) =>
            first.groups.some(([only, ...others]) => only === word && others.length === 0),
          )
            ? frequentWords(wholeWords, 1)
            : null,
          listFrequent,
        );
  };
  const likely = await listParts(COMPARISONS.few);
  const found =
    likely.totalItems === 0 && !likely.totalIsExact ? await listParts(COMPARISONS.many) : likely;
  // Other words would only add noise to exact matches.
  if (found.totalItems > 0) {
    return found;
  }

  /** Lists what the corrected words find, unless they are the given ones or one of them means nothing. */
  const listCorrected = async (corrected: readonly CorrectedWord[]): Promise<TablePage> => {
    const groups = corrected.map(({ meant }) => meant);
    return groups.some((counts) => counts.length === 0) ||
      frequentWords(groups, WORDS_WITH_PART).join(" ") === words.join(" ")
      ? NO_MATCHES
      : listGroups(groups);
  };

  const corrected = await correctTypos(db, words, known);
  const withCorrections = await listCorrected(corrected);
  if (withCorrections.totalItems > 0) {
    return withCorrections;
  }
  const allCorrected = await correctAllTypos(db, words, known);
  const withAllCorrections = allCorrected === null ? NO_MATCHES : await listCorrected(allCorrected);
  if (withAllCorrections.totalItems > 0) {
    return withAllCorrections;
  }
  const replaced = await replaceRareWords(db, corrected, known);
  if (replaced === null) {
    return NO_MATCHES;
  }
  const withReplacements = await listCorrected(replaced);
  const shorter = withReplacements.totalItems > 0 ? null : leaveOutRarest(replaced);
  return shorter === null ? withReplacements : listGroups(shorter.map(({ meant }) => meant));
};
