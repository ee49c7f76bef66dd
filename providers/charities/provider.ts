import type { Charity, CharityProviderName, Ein } from "../../domain/charities/charities.ts";

/** What is searched for; all that is given must hold, nothing given lists what the provider puts first. */
export type CharityQuery = {
  readonly name: string | null;
  readonly ein: Ein | null;
  /** From 1. */
  readonly page: number;
  readonly pageSize: number;
};

export type CharityPage = {
  readonly items: readonly Charity[];
  /** All that match; where the provider tells no total, what it is known to have at least. */
  readonly totalItems: number;
  readonly totalIsExact: boolean;
};

/**
 * A source of charities. Every method ends when the signal aborts and throws a CharityProviderError when the provider
 * cannot answer; a charity that it does not know is null.
 */
export type CharityProvider = {
  readonly name: CharityProviderName;
  readonly search: (query: CharityQuery, signal: AbortSignal) => Promise<CharityPage>;
  readonly findByEin: (ein: Ein, signal: AbortSignal) => Promise<Charity | null>;
  readonly findById: (nonprofitId: string, signal: AbortSignal) => Promise<Charity | null>;
};

/** A provider did not answer, or not in a way that can be understood. The message is for the operator. */
export class CharityProviderError extends Error {
  override readonly name = "CharityProviderError";
}
