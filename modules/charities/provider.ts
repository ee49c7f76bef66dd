import type { Charity, CharityIds, Ein } from "./charities.rules.ts";
import type { CharityProviderName } from "../accounts/accounts.rules.ts";

/** All given conditions must hold; without any, the provider decides what to list first. */
export type CharityQuery = {
  readonly name: string | null;
  readonly ein: Ein | null;
  /** From 1. */
  readonly page: number;
  readonly pageSize: number;
};

export type CharityPage = {
  readonly items: readonly Charity[];
  /** The number of matches, or of those known to exist if the provider reports no total. */
  readonly totalItems: number;
};

export const NO_MATCHES: CharityPage = { items: [], totalItems: 0 };

/**
 * A source of charities, for one account. A charity that it does not have is null. `search` and `find` of a remote one stop
 * when their signal aborts, and throw a CharityProviderError if the provider fails, or a DomainError charity_unconfirmed if the
 * account calls it too often.
 */
export type CharityProvider = {
  readonly name: CharityProviderName;
  readonly search: (query: CharityQuery, signal: AbortSignal) => Promise<CharityPage>;
  /** Finds a charity by its id, or by its EIN if no id is given. */
  readonly find: (ids: CharityIds, signal: AbortSignal) => Promise<Charity | null>;
  /**
   * Finds a charity without a call of a remote provider: in the built-in catalogue, or among those that this process remembers.
   * Undefined if only such a call can tell whether it exists.
   */
  readonly findKnown: (ids: CharityIds) => Promise<Charity | null | undefined>;
  /** Remembers a charity that another process has found. */
  readonly remember?: (ids: CharityIds, charity: Charity) => void;
};

/** A provider did not respond, or its response was unusable. The message is for the operator. */
export class CharityProviderError extends Error {
  override readonly name = "CharityProviderError";
}
