import type { CommonQueryMethods } from "slonik";
import { findCatalogueWords } from "../../../db/charities/charityWords.ts";
import {
  catalogueWords,
  MINIMUM_SEARCH_LENGTH,
  nameWords,
} from "../../../domain/charities/charitySearch.ts";
import {
  COMPARISONS,
  frequentWords,
  splitParts,
  sumCharities,
} from "../../../domain/charities/wordGroups.ts";
import type { CharityQuery } from "../provider.ts";
import type { CorrectedWord } from "./correctWords.ts";
import { correctAllTypos, correctTypos, leaveOutRarest, replaceRareWords } from "./correctWords.ts";
import {
  areProbablyMany,
  COUNTED_MATCHES,
  createMatchLists,
  WORDS_OF_EACH_PART,
} from "./createMatchLists.ts";
import type { CountedGroups, MatchLists, TablePage } from "./createMatchLists.ts";
import { readWordsWithParts, WORDS_WITH_PART } from "./readWordsWithParts.ts";

/** As `WORDS_OF_EACH_PART`, of a search that is one word. */
const WORDS_OF_ONE_PART = 64;

const NO_MATCHES: TablePage = { items: [], totalItems: 0, totalIsExact: true };

/** A search for a name. */
type NameSearch = {
  readonly db: CommonQueryMethods;
  readonly phrase: string;
  readonly words: readonly string[];
  /** The words that the catalogue has, with their numbers of charities. */
  readonly known: ReadonlyMap<string, number>;
  readonly wholeWords: CountedGroups;
  readonly lists: MatchLists;
};

/** Yields the pages of one search after the other, each for other words. The first one that is not empty is the result. */
type Strategy = (search: NameSearch) => AsyncIterable<TablePage>;

const listWholeWords = async (
  { wholeWords, lists }: NameSearch,
  minimum: number,
): Promise<TablePage | null> =>
  wholeWords.every((counts) => sumCharities(counts) > COUNTED_MATCHES)
    ? lists.listMany(wholeWords, 1, minimum)
    : null;

const searchWholeWords: Strategy = async function* searchWholeWords(search) {
  const many = areProbablyMany(search.wholeWords, 1) ? await listWholeWords(search, 0) : null;
  if (many !== null) {
    yield many;
  }
};

const searchParts: Strategy = async function* searchParts(search) {
  const { db, phrase, words, known, wholeWords, lists } = search;
  const parts = await readWordsWithParts(db, words, known);
  const frequent = parts.map(({ common, rare }) => [...common, ...rare]);
  const wordsOfPart = words.length === 1 ? WORDS_OF_ONE_PART : WORDS_OF_EACH_PART;
  const listFrequent = async (minimum: number): Promise<TablePage | null> =>
    (await listWholeWords(search, minimum)) ??
    (await lists.listMany(frequent, wordsOfPart, minimum));
  const listParts = async (maximumComparisons: number): Promise<TablePage> => {
    const { sets, isComplete } = splitParts(parts, maximumComparisons);
    const [first] = sets;
    return first === undefined
      ? NO_MATCHES
      : lists.listFew(
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

  const many = areProbablyMany(frequent, wordsOfPart) ? await listFrequent(0) : null;
  if (many !== null) {
    yield many;
  }
  const likely = await listParts(COMPARISONS.few);
  yield likely;
  if (!likely.totalIsExact) {
    yield listParts(COMPARISONS.many);
  }
};

/** Only if the given words have no matches: other words would add noise to exact ones. */
const searchCorrections: Strategy = async function* searchCorrections({ db, words, known, lists }) {
  /** Lists what the corrected words find, unless they are the given ones or one of them means nothing. */
  const listCorrected = async (corrected: readonly CorrectedWord[]): Promise<TablePage> => {
    const groups = corrected.map(({ meant }) => meant);
    return groups.some((counts) => counts.length === 0) ||
      frequentWords(groups, WORDS_WITH_PART).join(" ") === words.join(" ")
      ? NO_MATCHES
      : lists.listGroups(groups);
  };

  const corrected = await correctTypos(db, words, known);
  yield listCorrected(corrected);
  const allCorrected = await correctAllTypos(db, words, known);
  if (allCorrected !== null) {
    yield listCorrected(allCorrected);
  }
  const replaced = await replaceRareWords(db, corrected, known);
  if (replaced === null) {
    yield NO_MATCHES;
    return;
  }
  yield listCorrected(replaced);
  const shorter = leaveOutRarest(replaced);
  if (shorter !== null) {
    yield lists.listGroups(shorter.map(({ meant }) => meant));
  }
};

const STRATEGIES: readonly Strategy[] = [searchWholeWords, searchParts, searchCorrections];

/**
 * Searches the catalogue's table: for whole words, parts of words, words that differ by a typo, and similar words.
 * @param throwIfAborted called between queries
 */
export const searchTable = async (
  db: CommonQueryMethods,
  { name, ...query }: CharityQuery,
  throwIfAborted: () => void,
): Promise<TablePage> => {
  const { phrase, words } = catalogueWords(name ?? "");
  const lists = createMatchLists(db, query, phrase, throwIfAborted);
  if (name === null) {
    return lists.listAll();
  }
  const isShort = words.join("").length < MINIMUM_SEARCH_LENGTH;
  // Letters of other scripts are not among the words: without them, a short rest would match anything.
  if (phrase === "" || (isShort && phrase !== nameWords(name).phrase)) {
    return NO_MATCHES;
  }
  const known = await findCatalogueWords(db, words);
  const wholeWords = words.map((word) => {
    const charities = known.get(word);
    return charities === undefined ? [] : [{ word, charities }];
  });
  if (isShort) {
    return known.size === words.length ? lists.listGroups(wholeWords) : NO_MATCHES;
  }
  let page = NO_MATCHES;
  for (const search of STRATEGIES) {
    for await (page of search({ db, phrase, words, known, wholeWords, lists })) {
      if (page.totalItems > 0) {
        return page;
      }
    }
  }
  return page;
};
