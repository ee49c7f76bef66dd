/** A word of the catalogue, and how many charities have it. */
export type WordCount = { readonly word: string; readonly charities: number };

/** Names match that have a word of each group. */
export type WordGroups = readonly (readonly string[])[];

/** The words that contain a part of a search. */
export type WordsWithPart = {
  /** The part itself, if it is a word. */
  readonly whole: WordCount | null;
  /** Of many charities, the most frequent first. */
  readonly common: readonly WordCount[];
  /** Of few charities. */
  readonly rare: readonly WordCount[];
  /** Whether these are all words with the part. */
  readonly isComplete: boolean;
};

/** So many names are read and compared within a few milliseconds. */
const FEW_CHARITIES = 2000;
/** If so few names are left, comparing them with the other words is faster than looking up the words. */
const FEW_ENOUGH = 500;
/** PostgreSQL compares each candidate with each word of a group. */
const COMPARED_WORDS = 8;
/** For the size of the whole catalogue. In a smaller one, no choice of queries matters. */
const ALL_CHARITIES = 1_900_000;

const wordsOf = (counts: readonly WordCount[]): readonly string[] => counts.map(({ word }) => word);

export const sortByFrequency = (counts: readonly WordCount[]): readonly WordCount[] =>
  counts.toSorted((a, b) => b.charities - a.charities || (a.word < b.word ? -1 : 1));

/** Returns the sum, in which a charity that has several of the words counts several times. */
export const sumCharities = (counts: readonly WordCount[]): number =>
  counts.reduce((sum, { charities }) => sum + charities, 0);

/** Estimates how many charities have a word of each group, as if the words had nothing to do with each other. */
export const estimateMatches = (groups: readonly (readonly WordCount[])[]): number =>
  groups.reduce(
    (matches, counts) => matches * Math.min(1, sumCharities(counts) / ALL_CHARITIES),
    ALL_CHARITIES,
  );

/** Returns the rarest lists, as many as leave few names, and all that must be looked up. */
export const chooseLookups = <T>(
  items: readonly T[],
  countsOf: (item: T) => readonly WordCount[],
  mustLookUp: (item: T) => boolean,
): readonly T[] => {
  const chosen: T[] = items.filter(mustLookUp);
  const optional = items
    .filter((item) => !mustLookUp(item))
    .toSorted((a, b) => sumCharities(countsOf(a)) - sumCharities(countsOf(b)));
  for (const item of optional) {
    if (chosen.length > 0 && estimateMatches(chosen.map(countsOf)) <= FEW_ENOUGH) {
      break;
    }
    chosen.push(item);
  }
  return chosen;
};

/** Returns the most frequent words of each group, with which a tier is searched. */
export const frequentWords = (
  groups: readonly (readonly WordCount[])[],
  maximum: number,
): WordGroups => groups.map((counts) => wordsOf(counts.slice(0, maximum)));

/** A set of names. Sets of one search have no name in common. */
export type NameSet = {
  /** They have a word of each of these groups. */
  readonly groups: WordGroups;
  /** They are none of those that have a word of each group of one of these lists. */
  readonly except: readonly WordGroups[];
};

/** The estimated comparisons of words and names that one search may cost, each some nanoseconds. */
export const COMPARISONS = { few: 200_000, many: 1_500_000 } as const;

type Split = {
  readonly sets: readonly NameSet[];
  /** False if names that match are in none of the sets. */
  readonly isComplete: boolean;
};

/** Returns the comparisons to find names that have a word of each list: the index skips most names of long lists. */
const comparisonsOf = (lists: readonly (readonly WordCount[])[]): number =>
  Math.min(...lists.map(sumCharities)) * lists.reduce((sum, list) => sum + list.length, 0);

/**
 * Splits a search into sets so that each is fast: intersecting single words is, and so is a group of infrequent words.
 * The most frequent words come first.
 * @param lists words of each group, with the most frequent first
 * @param preferred a word of each group whose set comes before all others; null if there are none
 */
export const splitGroups = (
  lists: readonly (readonly WordCount[])[],
  preferred: readonly WordCount[] | null,
  maximumComparisons: number,
): Split => {
  const compared = lists.map((counts) => counts.slice(0, COMPARED_WORDS + 1));
  const first = compared.map((counts) => counts.slice(0, 1));
  const rests = compared
    .map((counts, index) => [
      ...first.slice(0, index),
      counts.slice(1),
      ...compared.slice(index + 1),
    ])
    .map((set, index) => ({ set, index, comparisons: comparisonsOf(set) }))
    .filter(({ index }) => (compared[index]?.length ?? 0) > 1)
    .toSorted((a, b) => a.comparisons - b.comparisons);
  let comparisons = 0;
  const affordable = rests.filter((rest) => {
    comparisons += rest.comparisons;
    return comparisons <= maximumComparisons;
  });
  const preferredGroups = preferred?.map(({ word }) => [word]) ?? null;
  const mostFrequent = first.map(wordsOf);
  const isPreferred = preferredGroups?.flat().join(" ") === mostFrequent.flat().join(" ");
  const before = preferredGroups === null || isPreferred ? [] : [preferredGroups];
  return {
    sets: [
      ...before.map((groups) => ({ groups, except: [] })),
      { groups: mostFrequent, except: before },
      ...affordable.map(({ set, index }) => ({
        groups: set.map(wordsOf),
        except: [...before, [wordsOf(first[index] ?? [])]],
      })),
    ],
    isComplete: affordable.length === rests.length,
  };
};

/** Returns the words with the whole word among the first ones. */
const withWhole = (whole: WordCount | null, words: readonly WordCount[]): readonly WordCount[] => {
  const others = words.filter(({ word }) => word !== whole?.word);
  return whole === null
    ? others
    : sortByFrequency([whole, ...others.slice(0, COMPARED_WORDS)]).concat(
        others.slice(COMPARED_WORDS),
      );
};

/**
 * Chooses sets of names that contain the charities with all parts, and others.
 */
export const splitParts = (parts: readonly WordsWithPart[], maximumComparisons: number): Split => {
  const all = parts.map(({ whole, common, rare, isComplete }) => ({
    whole,
    words: withWhole(whole, [...common, ...rare]),
    isComplete,
  }));
  if (all.some(({ words, isComplete }) => isComplete && words.length === 0)) {
    return { sets: [], isComplete: true };
  }
  const [fewest] = all
    .filter(({ words }) => words.length > 0 && sumCharities(words) <= FEW_CHARITIES)
    .toSorted(
      (a, b) =>
        Number(b.isComplete) - Number(a.isComplete) ||
        sumCharities(a.words) - sumCharities(b.words),
    );
  if (fewest) {
    return {
      sets: [{ groups: [wordsOf(fewest.words)], except: [] }],
      isComplete: fewest.isComplete,
    };
  }
  const lists = chooseLookups(
    all,
    ({ words }) => words,
    () => false,
  );
  const whole = lists.flatMap((list) => list.whole ?? []);
  const frequent = splitGroups(
    lists.map(({ words }) => words.slice(0, COMPARED_WORDS + 1)),
    whole.length === lists.length ? whole : null,
    maximumComparisons,
  );
  const infrequent = lists.map(({ words, isComplete }) => {
    const rest = words.slice(COMPARED_WORDS + 1);
    return { rest, isRead: isComplete && sumCharities(rest) <= FEW_CHARITIES / lists.length };
  });
  const rests = infrequent
    .filter(({ rest, isRead }) => isRead && rest.length > 0)
    .map(({ rest }) => [wordsOf(rest)]);
  return {
    sets: [
      ...frequent.sets,
      ...rests.map((groups, index) => ({
        groups,
        except: [
          frequentWords(
            lists.map(({ words }) => words),
            COMPARED_WORDS + 1,
          ),
          ...rests.slice(0, index),
        ],
      })),
    ],
    isComplete: frequent.isComplete && infrequent.every(({ isRead }) => isRead),
  };
};
