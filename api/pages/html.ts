/** Text that is markup and needs no escaping. */
export type Markup = { readonly markup: string };

type Part = Markup | string | number | null | readonly Part[];

const ESCAPES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Characters that XML forbids, and those that reverse the direction of text. */
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

/** Builds markup. Interpolated values are escaped unless they are markup. */
export const html = (strings: TemplateStringsArray, ...parts: readonly Part[]): Markup => ({
  markup: strings.map((text, index) => text + render(parts[index] ?? null)).join(""),
});

/** Marks our own text as markup. Never use it for values that clients have sent. */
const trusted = (markup: string): Markup => ({ markup });

/** The page's Content-Security-Policy contains the hash of exactly this text. */
export const styleElement = (style: string): Markup => trusted(`<style>${style}</style>`);
