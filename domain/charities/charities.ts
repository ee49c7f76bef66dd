/** An Employer Identification Number: nine digits. Its prefix says nothing, and there is no check digit. */
export type Ein = string;

/** A charity as a provider tells of it; texts are empty where it tells none. */
export type Charity = {
  /** The provider's own id. */
  readonly nonprofitId: string;
  readonly name: string;
  /** Null where the provider knows none, as for foreign charities. */
  readonly ein: Ein | null;
  readonly description: string;
  readonly website: string;
  readonly iconUrl: string;
};

/** What names a charity: its EIN, its id at the provider, or both, which must then agree. */
export type CharityIds =
  | { readonly ein: Ein; readonly nonprofitId: null }
  | { readonly ein: Ein | null; readonly nonprofitId: string };

/** Where charities are looked up; `catalogue` is the built-in one. */
export const CHARITY_PROVIDERS = ["catalogue", "everyorg", "change", "pledge"] as const;
export type CharityProviderName = (typeof CHARITY_PROVIDERS)[number];

const WRITTEN_EIN = /^(\d{2})[- ]?(\d{7})$/u;

/** Reads an EIN as people write it, with or without the dash; null when it is none. */
export const parseEin = (written: string): Ein | null => {
  const match = WRITTEN_EIN.exec(written.trim());
  return match ? `${match[1]}${match[2]}` : null;
};

/** `530196605` as `53-0196605`. */
export const formatEin = (ein: Ein): string => `${ein.slice(0, 2)}-${ein.slice(2)}`;
