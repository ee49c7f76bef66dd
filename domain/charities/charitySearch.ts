import type { Ein } from "./charities.ts";
import { parseEin } from "./charities.ts";

/** What a search asks for: its words, and these as they stand, with single spaces between them. */
export type SearchWords = { readonly words: readonly string[]; readonly phrase: string };

/** Fewer letters match too much to be of use, and no index helps. */
export const MINIMUM_SEARCH_LENGTH = 3;

/** Whether a name has too few letters and digits, of whatever script, to be searched for. */
export const isTooShort = (name: string): boolean =>
  (name.match(/[\p{L}\p{N}]/gu)?.length ?? 0) < MINIMUM_SEARCH_LENGTH;

/** What a name is searched for as: a name that is an EIN as that. */
export const readSearchName = (
  given: string | null,
): { readonly name: string | null; readonly ein: Ein | null } => {
  const ein = given === null ? null : parseEin(given);
  return { name: ein === null ? given : null, ein };
};

const fold = (name: string, separators: RegExp): SearchWords => {
  const phrase = name
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[\p{Mark}'’.]/gu, "")
    .replaceAll("&", " and ")
    .replaceAll(separators, " ")
    .trim();
  return { phrase, words: phrase === "" ? [] : [...new Set(phrase.split(" "))] };
};

/** Brings a name into the form that names are compared in: small letters and digits without accents. */
export const nameWords = (name: string): SearchWords => fold(name, /[^\p{L}\p{N}]+/gu);

/** Brings a name into the form of the catalogue's own search text, which knows English letters only. */
export const catalogueWords = (name: string): SearchWords => fold(name, /[^a-z0-9]+/gu);
