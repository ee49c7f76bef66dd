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
  readonly totalIsExact: boolean;
};

/** Charities that the database can confirm without a call to a remote provider. */
export type LocalCharities = {
  /** Returns the charities in the order of their ids, by few queries. Missing ones are null. */
  readonly find: (ids: readonly CharityIds[]) => Promise<readonly (Charity | null)[]>;
  /** Whether a charity that is missing here does not exist: true for the built-in catalogue, false for a cache. */
  readonly isComplete: boolean;
};

/**
 * A source of charities, for one account. Every method stops when its signal aborts, and throws a CharityProviderError if
 * the provider fails, or a DomainError charity_unconfirmed if the account calls it too often; a charity that the provider does not
 * have is null.
 */
export type CharityProvider = {
  readonly name: CharityProviderName;
  readonly search: (query: CharityQuery, signal: AbortSignal) => Promise<CharityPage>;
  readonly findByEin: (ein: Ein, signal: AbortSignal) => Promise<Charity | null>;
  readonly findById: (nonprofitId: string, signal: AbortSignal) => Promise<Charity | null>;
  readonly local: LocalCharities;
};

/** A provider without the local lookups that `withDetailsCache` adds. */
export type RemoteCharityProvider = Omit<CharityProvider, "local">;

/** A provider did not respond, or its response was unusable. The message is for the operator. */
export class CharityProviderError extends Error {
  override readonly name = "CharityProviderError";
}
