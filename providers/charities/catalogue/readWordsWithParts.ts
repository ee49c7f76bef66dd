import type { CommonQueryMethods } from "slonik";
import { listCommonWordsWith, listRareWordsWith } from "../../../db/charities/charityWords.ts";
import type { WordsWithPart } from "../../../domain/charities/wordGroups.ts";

export const WORDS_WITH_PART = 200;
/** As many words of one search may be parts of words, so that a long search costs no more than others. */
const MAXIMUM_PARTS = 3;
const MAXIMUM_UNKNOWN_PARTS = 5;

/** Reads the words with each part; of the words of a long search, those that the fewest charities have. */
export const readWordsWithParts = async (
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
