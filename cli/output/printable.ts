/** What a terminal obeys: control characters, line separators, marks that reverse the direction of text, lone surrogates. */
const UNSAFE = /[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Bidi_Control}]/gu;

/** Escapes in JSON's notation what a terminal would obey, because texts come from other parties. */
export const escapeUnsafe = (text: string): string =>
  text.replaceAll(
    UNSAFE,
    (character) => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`,
  );

/** Escapes a text of several lines. JSON stays the same value, since it has these characters only in strings. */
export const escapeUnsafeInLines = (text: string): string =>
  text.split("\n").map(escapeUnsafe).join("\n");

/** Returns foreign text so that it can be printed on one line, at a limited length. */
export const printable = (text: string, maximumLength: number): string => {
  const shown = escapeUnsafe(text.slice(0, maximumLength));
  return text.length > maximumLength ? `${shown}…` : shown;
};
