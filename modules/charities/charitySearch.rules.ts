import type { Ein } from "./charities.rules.ts";
import { parseEin } from "./charities.rules.ts";

/** The words of a normalized name, and the name itself with single spaces between its words. */
export type SearchWords = { readonly words: readonly string[]; readonly phrase: string };

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
