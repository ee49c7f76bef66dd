import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { ErrorCode } from "../../runtime/errors.rules.ts";
import { textOrNumber } from "../records/fields.rules.ts";

/** An Employer Identification Number: nine digits. Its prefix means nothing, and there is no check digit. */
export type Ein = string;

/** A charity as its provider describes it; texts that the provider does not have are empty. */
export type Charity = {
  readonly nonprofitId: string;
  readonly name: string;
  /** Null if the charity has none, as foreign charities do. */
  readonly ein: Ein | null;
  readonly description: string;
  readonly website: string;
  readonly iconUrl: string;
};

/** How a client names a charity: by EIN, by the provider's id, or by both, which must then agree. */
export type CharityIds =
  | { readonly ein: Ein; readonly nonprofitId: null }
  | { readonly ein: Ein | null; readonly nonprofitId: string };

export type CharityLookup = CharityIds & {
  readonly provider: CharityProviderName;
  readonly accountId: string;
};

export type ConfirmedCharity = {
  readonly charity: Charity;
  readonly provider: CharityProviderName;
};

export type CharityValidation =
  | ({ readonly kind: "confirmed" } & ConfirmedCharity)
  | { readonly kind: "rejected"; readonly code: ErrorCode; readonly message: string }
  /** The provider did not respond usefully; the reason is for the log. */
  | { readonly kind: "unavailable"; readonly reason: string };

export const EIN_MUST_BE = "must be nine digits such as 53-0196605";

/**
 * An EIN as people and programs write it: with or without `EIN` before it, and with or without spaces or any hyphen, dash or
 * minus sign after its first two digits. Spreadsheets lose the first one if it is a zero.
 */
const WRITTEN_EIN = /^\s*(?:ein[\s:#]*)?(\d{1,2})[\s\u2010-\u2015\u2212-]*(\d{7})\s*$/iu;

export const parseEin = (written: string): Ein | null => {
  const [, prefix = "", rest] = WRITTEN_EIN.exec(written) ?? [];
  return rest === undefined ? null : `${prefix.padStart(2, "0")}${rest}`;
};

/** An EIN as a client writes it, also as a number; null for a blank text. */
export const ein = () =>
  textOrNumber(50).transform((written, context): Ein | null => {
    const parsed = parseEin(written);
    if (parsed === null && written.trim() !== "") {
      context.addIssue({ code: "custom", message: EIN_MUST_BE });
    }
    return parsed;
  });

/** `530196605` as `53-0196605`; empty for a charity without an EIN. */
export const formatEin = (digits: Ein | null): string =>
  digits === null ? "" : `${digits.slice(0, 2)}-${digits.slice(2)}`;

/** The JSON of a charity, the same in the API and on the command line. */
export const presentCharity = (charity: Charity, iconUrl = charity.iconUrl) => ({
  nonprofit_id: charity.nonprofitId,
  name: charity.name,
  ein: formatEin(charity.ein),
  description: charity.description,
  website: charity.website,
  icon_url: iconUrl,
});

/** The words of a normalized name, and the name itself with single spaces between its words. */
type SearchWords = { readonly words: readonly string[]; readonly phrase: string };

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
