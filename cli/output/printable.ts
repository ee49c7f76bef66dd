/** Control characters, which a terminal would obey, and the marks that reverse the direction of text. */
const UNSAFE = /[\p{Cc}\p{Cs}\u061C\u200E\u200F\u2028-\u202E\u2066-\u2069]/gu;

/**
 * Returns foreign text so that it can be printed: on one line, of limited length, and with nothing that a terminal obeys.
 */
export const printable = (text: string, maximumLength: number): string => {
  const shown = text
    .slice(0, maximumLength)
    .replaceAll(
      UNSAFE,
      (character) => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`,
    );
  return text.length > maximumLength ? `${shown}…` : shown;
};
