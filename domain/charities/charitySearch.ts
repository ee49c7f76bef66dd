import type { Ein } from "./charities.ts";
import { parseEin } from "./charities.ts";

/** The words of a normalized name, and the name itself with single spaces between its words. */
export type SearchWords = { readonly words: readonly string[]; readonly phrase: string };

/** Parts of words that are shorter match too many charities, and no index supports them. */
export const MINIMUM_SEARCH_LENGTH = 3;

/** Returns a given name as the EIN that it is, or else as a name. */
export const readSearchName = (
  given: string | null,
): { readonly name: string | null; readonly ein: Ein | null } => {
  const ein = given === null ? null : parseEin(given);
  return { name: ein === null ? given : null, ein };
};

const normalize = (name: string, separators: RegExp): SearchWords => {
  const phrase = name
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[\p{Mark}'’.]/gu, "")
    .replaceAll("&", " and ")
    .replaceAll(separators, " ")
    .trim();
  return { phrase, words: phrase === "" ? [] : [...new Set(phrase.split(" "))] };
};

/** Normalizes a name for comparison: lower-case letters and digits of any script, without accents. */
export const nameWords = (name: string): SearchWords => normalize(name, /[^\p{L}\p{N}]+/gu);

/** Normalizes a name as `charity.search_text` is, which contains only English letters and digits. */
export const catalogueWords = (name: string): SearchWords => normalize(name, /[^a-z0-9]+/gu);

const LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789".split("");
const LONGEST_MISSPELLING = 30;

/** Returns the words from which a typo made this one: a letter missing, added or replaced, or two exchanged. */
export const spellingsOf = (word: string): readonly string[] => {
  if (word.length < MINIMUM_SEARCH_LENGTH || word.length > LONGEST_MISSPELLING) {
    return [];
  }
  return Array.from({ length: word.length + 1 }, (_, index) => {
    const [head, tail] = [word.slice(0, index), word.slice(index)];
    return [
      `${head}${tail.slice(1)}`,
      `${head}${tail.slice(1, 2)}${tail.slice(0, 1)}${tail.slice(2)}`,
      ...LETTERS.flatMap((letter) => [
        `${head}${letter}${tail.slice(1)}`,
        `${head}${letter}${tail}`,
      ]),
    ];
  }).flat();
};

const SHORTEST_HALF = 2;

/** Returns the pairs of words that a missing space may have joined. */
export const splitsOf = (word: string): readonly (readonly [string, string])[] =>
  word.length > 2 * LONGEST_MISSPELLING
    ? []
    : Array.from(
        { length: Math.max(0, word.length - 2 * SHORTEST_HALF + 1) },
        (_, index) =>
          [word.slice(0, index + SHORTEST_HALF), word.slice(index + SHORTEST_HALF)] as const,
      );
