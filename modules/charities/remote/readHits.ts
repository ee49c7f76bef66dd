import { z } from "zod";
import type { CharityProviderName } from "../../accounts/accounts.rules.ts";
import type { LeftOut } from "../../../runtime/splitReadable.ts";
import { splitReadable } from "../../../runtime/splitReadable.ts";
import { CharityProviderError } from "../provider.ts";
import type { CharityQuery, CharityPage, CharityProvider } from "../provider.ts";
import type { Charity, Ein } from "../charities.rules.ts";
import { nameWords, parseEin } from "../charities.rules.ts";

const MAXIMUM_LENGTH = 10_000;

/** A text that is safe to store and show: well-formed and of bounded length; empty if missing. */
export const looseText = () =>
  z
    .string()
    .nullish()
    .transform((text) =>
      (text ?? "")
        .replaceAll("\0", "")
        .toWellFormed()
        .trim()
        .slice(0, MAXIMUM_LENGTH)
        .toWellFormed(),
    );

/** A name or an id, which every charity must have. */
export const requiredText = () => looseText().refine((text) => text !== "", "must not be empty");

/** An EIN with or without its dash; null for anything else, such as a foreign number. */
export const looseEin = () =>
  z
    .string()
    .nullish()
    .transform((text) => (text ? parseEin(text) : null));

/** An HTTP URL; empty if missing or of another scheme. */
export const looseUrl = () =>
  looseText().transform((text) => {
    const url = text === "" || /^[a-z][a-z0-9+.-]*:/iu.test(text) ? text : `https://${text}`;
    const parsed = URL.parse(url);
    return parsed?.protocol === "https:" || parsed?.protocol === "http:" ? url : "";
  });

/** Records of a search's response that cannot be used. */
export type UnusableHits = LeftOut & { readonly provider: CharityProviderName };

/**
 * Returns the usable records of a search's response.
 * @param onUnusable called if there are others
 * @throws CharityProviderError if there are records, and none can be used
 */
export const readHits = async <Schema extends z.ZodType>(
  provider: CharityProviderName,
  hits: readonly unknown[],
  schema: Schema,
  onUnusable: (unusable: UnusableHits) => void,
): Promise<readonly z.output<Schema>[]> => {
  const { readable, unreadable } = await splitReadable(hits, schema).catch((error: unknown) => {
    throw new CharityProviderError(`${provider}: search: unexpected response format`, {
      cause: error,
    });
  });
  if (unreadable.count > 0) {
    onUnusable({ provider, ...unreadable });
  }
  return readable;
};

const matchesName = (charity: Charity, name: string): boolean => {
  const { phrase } = nameWords(charity.name);
  return nameWords(name).words.every((word) => phrase.includes(word));
};

/** Searches by EIN, which has at most one result; a given name must match it too. */
export const searchByEin = async (
  findByEin: CharityProvider["findByEin"],
  ein: Ein,
  { name, page }: CharityQuery,
  signal: AbortSignal,
): Promise<CharityPage> => {
  const charity = await findByEin(ein, signal);
  const matches =
    charity !== null && (name === null || matchesName(charity, name)) ? [charity] : [];
  return {
    items: page === 1 ? matches : [],
    totalItems: matches.length,
    totalIsExact: true,
  };
};
