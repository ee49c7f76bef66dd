/** Text that is markup already. */
export type Markup = { readonly markup: string };

type Part = Markup | string | number | null | readonly Part[];

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** What no XML document may hold, and what would turn the rest of a line around. */
const UNWANTED = /[\p{Cc}\p{Noncharacter_Code_Point}\u202A-\u202E\u2066-\u2069]/gu;
const LINE_SPACE = /[\t\n\r]/gu;

const escapeText = (text: string): string =>
  text
    .replaceAll(/[&<>"']/gu, (character) => ESCAPES[character] ?? character)
    .replaceAll(LINE_SPACE, " ")
    .replaceAll(UNWANTED, "");

const render = (part: Part): string => {
  if (part === null) {
    return "";
  }
  if (typeof part === "object") {
    return "markup" in part ? part.markup : part.map(render).join("");
  }
  return escapeText(String(part));
};

/** Markup of a page or a picture. All that is put in is escaped unless it is markup itself. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Markup => ({
  markup: strings.map((text, index) => text + render(parts[index] ?? null)).join(""),
});

/** Markup of ours that is not to be escaped; never for anything that somebody has sent. */
const trusted = (markup: string): Markup => ({ markup });

/** Its text is what the page's policy names by its hash, to the letter. */
export const styleElement = (style: string): Markup => trusted(`<style>${style}</style>`);
