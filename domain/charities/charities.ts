import type { ErrorCode } from "../errors.ts";
import { text } from "../fields.ts";

/** An Employer Identification Number: nine digits. Its prefix means nothing, and there is no check digit. */
export type Ein = string;

/** A charity as its provider describes it; texts that the provider does not have are empty. */
export type Charity = {
  /** The provider's own id. */
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

/** Where charities are looked up; `catalogue` is the built-in one. */
export const CHARITY_PROVIDERS = ["catalogue", "everyorg", "change", "pledge"] as const;
export type CharityProviderName = (typeof CHARITY_PROVIDERS)[number];

/** A charity to validate with the remote provider of an account. */
export type CharityLookup = CharityIds & {
  readonly provider: CharityProviderName;
  readonly accountId: string;
};

/** A charity that exists, and the provider that confirmed it. */
export type ConfirmedCharity = {
  readonly charity: Charity;
  readonly provider: CharityProviderName;
};

/** The result of validating a charity with its provider. */
export type CharityValidation =
  | ({ readonly kind: "confirmed" } & ConfirmedCharity)
  | {
      readonly kind: "rejected";
      readonly code: ErrorCode;
      readonly message: string;
      /** When a retry can succeed, if that is known. */
      readonly retryAfterSeconds?: number;
    }
  /** The provider did not respond usefully; the reason is for the log. */
  | { readonly kind: "unavailable"; readonly reason: string };

const WRITTEN_EIN = /^(\d{2})[- ]?(\d{7})$/u;

/** Parses an EIN with or without its dash; returns null if it is malformed. */
export const parseEin = (written: string): Ein | null => {
  const match = WRITTEN_EIN.exec(written.trim());
  return match ? `${match[1]}${match[2]}` : null;
};

/** An EIN as a client writes it, with or without its dash; null for an empty text. */
export const ein = () =>
  text(50)
    .meta({ pattern: String.raw`^\s*(?:\d{2}-?\d{7})?\s*$` })
    .transform((written, context): Ein | null => {
      const parsed = parseEin(written);
      if (parsed === null && written.trim() !== "") {
        context.addIssue({
          code: "custom",
          message: "must be nine digits, with or without the dash",
        });
      }
      return parsed;
    });

/** `530196605` as `53-0196605`. */
export const formatEin = (digits: Ein): string => `${digits.slice(0, 2)}-${digits.slice(2)}`;
