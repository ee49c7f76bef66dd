import type { CommonQueryMethods } from "slonik";
import { findCatalogueWords, listSimilarWords } from "../../../db/charities/charityWords.ts";
import { spellingsOf, splitsOf } from "../../../domain/charities/charitySearch.ts";
import type { WordCount } from "../../../domain/charities/wordGroups.ts";
import { sortByFrequency } from "../../../domain/charities/wordGroups.ts";

/** As many words of one search are corrected, so that a long search costs no more than others. */
const CORRECTED_WORDS = 4;
/** Few typos are words that many charities have. */
const CORRECTED_FREQUENT_WORDS = 2;
const SIMILAR_WORDS = 8;
/** A word that fewer charities have may be a typo of theirs. */
const TYPO_CHARITIES = 10;
/** What remains of a search after leaving out words must be most of its letters. */
const MINIMUM_SHARE = 0.6;

/** A word of a search, with the words of the catalogue that it may mean, the most frequent first. */
export type CorrectedWord = { readonly given: string; readonly meant: readonly WordCount[] };

const countsOf = (
  words: readonly string[],
  known: ReadonlyMap<string, number>,
): readonly WordCount[] =>
  sortByFrequency(
    [...new Set(words)].flatMap((word) => {
      const charities = known.get(word);
      return charities === undefined ? [] : [{ word, charities }];
    }),
  );

/** Returns each word of a search with those from which a typo may have made it, if it is one of the doubtful ones. */
const correctDoubtful = async (
  db: CommonQueryMethods,
  words: readonly string[],
  doubtful: readonly string[],
): Promise<readonly CorrectedWord[]> => {
  const spellings = new Map(
    words.map((word) => [word, doubtful.includes(word) ? [word, ...spellingsOf(word)] : [word]]),
  );
  const found = await findCatalogueWords(db, [...new Set([...spellings.values()].flat())]);
  return words.map((given) => ({ given, meant: countsOf(spellings.get(given) ?? [], found) }));
};

const byRarity = (
  words: readonly string[],
  known: ReadonlyMap<string, number>,
): readonly string[] =>
  words.toSorted((a, b) => (known.get(a) ?? 0) - (known.get(b) ?? 0)).slice(0, CORRECTED_WORDS);

const isRare = (word: string, known: ReadonlyMap<string, number>): boolean =>
  (known.get(word) ?? 0) < TYPO_CHARITIES;

/** Returns the words that probably have typos: those that no or few charities have, or else the rarest. */
const probableTypos = (
  words: readonly string[],
  known: ReadonlyMap<string, number>,
): readonly string[] => {
  const rarest = byRarity(words, known);
  const rare = rarest.filter((word) => isRare(word, known));
  return rare.length > 0 ? rare : rarest.slice(0, CORRECTED_FREQUENT_WORDS);
};

/**
 * Corrects typos in words that the catalogue does not have or that few charities have. If there are none, corrects the
 * rarest words.
 * @param known the words that the catalogue has
 */
export const correctTypos = (
  db: CommonQueryMethods,
  words: readonly string[],
  known: ReadonlyMap<string, number>,
): Promise<readonly CorrectedWord[]> => correctDoubtful(db, words, probableTypos(words, known));

/** Corrects typos also in words that many charities have; returns null if `correctTypos` corrects all of these too. */
export const correctAllTypos = async (
  db: CommonQueryMethods,
  words: readonly string[],
  known: ReadonlyMap<string, number>,
): Promise<readonly CorrectedWord[] | null> => {
  const rarest = byRarity(words, known);
  return probableTypos(words, known).length === rarest.length
    ? null
    : correctDoubtful(db, words, rarest);
};

/** Returns the two words that a missing space most probably joined, for each word that consists of two. */
const findSplits = async (
  db: CommonQueryMethods,
  words: readonly string[],
): Promise<ReadonlyMap<string, readonly CorrectedWord[]>> => {
  const pairs = new Map(words.map((word) => [word, splitsOf(word)]));
  const known = await findCatalogueWords(db, [...new Set([...pairs.values()].flat(2))]);
  const frequency = (pair: readonly string[]): number =>
    Math.min(...pair.map((half) => known.get(half) ?? 0));
  return new Map(
    [...pairs].flatMap(([word, splits]) => {
      const [best] = splits.toSorted((a, b) => frequency(b) - frequency(a));
      return best && frequency(best) > 0
        ? [[word, best.map((half) => ({ given: half, meant: countsOf([half], known) }))] as const]
        : [];
    }),
  );
};

/**
 * Replaces words that no or few charities have: by two words that a missing space joined, or by similar ones. Leaves
 * out those that nothing is similar to.
 * @returns null if too little of the search remains
 */
export const replaceRareWords = async (
  db: CommonQueryMethods,
  words: readonly CorrectedWord[],
  known: ReadonlyMap<string, number>,
): Promise<readonly CorrectedWord[] | null> => {
  const rare = words
    .filter(({ given }) => isRare(given, known))
    .map(({ given }) => given)
    .slice(0, CORRECTED_WORDS);
  const splits = await findSplits(db, rare);
  const corrections = new Map(words.map(({ given, meant }) => [given, meant]));
  const similar = await listSimilarWords(
    db,
    rare.filter((word) => !splits.has(word) && corrections.get(word)?.length === 0),
    SIMILAR_WORDS,
  );
  const replaced = words.flatMap(
    ({ given, meant }): readonly CorrectedWord[] =>
      splits.get(given) ?? [{ given, meant: similar.get(given) ?? meant }],
  );
  return leaveOut(replaced, ({ meant }) => meant.length === 0);
};

/** Leaves out words of a search; returns null if too little of it remains. */
const leaveOut = (
  words: readonly CorrectedWord[],
  isLeftOut: (word: CorrectedWord) => boolean,
): readonly CorrectedWord[] | null => {
  const letters = (list: readonly CorrectedWord[]): number =>
    list.reduce((sum, { given }) => sum + given.length, 0);
  const remaining = words.filter((word) => !isLeftOut(word));
  return remaining.length > 0 && letters(remaining) >= MINIMUM_SHARE * letters(words)
    ? remaining
    : null;
};

/** Leaves out the word that the fewest charities have; returns null if too little of the search remains. */
export const leaveOutRarest = (
  words: readonly CorrectedWord[],
): readonly CorrectedWord[] | null => {
  const frequency = ({ meant }: CorrectedWord): number => meant[0]?.charities ?? 0;
  const [rarest] = words.toSorted((a, b) => frequency(a) - frequency(b));
  return leaveOut(words, (word) => word === rarest);
};
