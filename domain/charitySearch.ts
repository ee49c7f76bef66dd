/** What a search asks for, in the form of the catalogue's own search text. */
export type SearchWords = { readonly words: readonly string[]; readonly phrase: string };

/** Fewer letters match too much to be of use, and no index helps. */
export const MINIMUM_SEARCH_LENGTH = 3;

/** Brings a name into the form that charities are compared in: small letters, digits and single spaces. */
export const searchWords = (name: string): SearchWords => {
  const phrase = name
    .normalize("NFKD")
    .toLowerCase()
    .replaceAll(/[\p{Mark}'’.]/gu, "")
    .replaceAll("&", " and ")
    .replaceAll(/[^a-z0-9]+/gu, " ")
    .trim();
  return { phrase, words: phrase === "" ? [] : [...new Set(phrase.split(" "))] };
};
