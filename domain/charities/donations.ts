import type { AccountMode } from "../accounts/accounts.ts";
import type { CharityIds, CharityProviderName, Ein } from "./charities.ts";
import type { ErrorCode } from "../errors.ts";
import type { Metadata } from "../registrations/registrations.ts";

/** One donation as it was recorded; amounts are whole US cents. */
export type Donation = {
  readonly id: string;
  readonly amountCents: number;
  readonly ein: Ein | null;
  /** The charity's id at the provider. */
  readonly nonprofitId: string;
  readonly charityProvider: CharityProviderName;
  readonly charityName: string;
  readonly createdAt: Date;
  /** Null when the client gave none. */
  readonly idempotencyKey: string | null;
  readonly attribution: string;
  readonly metadata: Metadata;
  readonly refunded: boolean;
};

/** What a client asks to have recorded, before the charity is known to exist. */
export type DonationRequest = AccountMode &
  CharityIds &
  Pick<Donation, "amountCents" | "idempotencyKey" | "attribution" | "metadata"> & {
    /** Null has the charity's own name taken. */
    readonly charityName: string | null;
  };

/** What became of a request for a donation. */
export type DonationOutcome =
  | { readonly kind: "recorded" }
  | { readonly kind: "refused"; readonly code: ErrorCode; readonly message: string }
  /** The charity could not be checked; nothing is recorded. */
  | { readonly kind: "unchecked"; readonly reason: string }
  /** Whoever asked gave up before; nothing is recorded. */
  | { readonly kind: "withdrawn" };

/** Donations that are not refunded. */
export type DonationTotals = { readonly count: number; readonly amountCents: number };

/** Which of an owner's donations to list; all conditions must hold. */
export type DonationFilter = {
  readonly attribution?: string;
  readonly metadataKey?: string;
  /** A string value itself, or the JSON text of any other value. */
  readonly metadataValue?: string;
  /** First instant that belongs to the list. */
  readonly from?: Date;
  /** First instant that no longer does. */
  readonly until?: Date;
};

/** The id of a refund, as clients are told it. */
export const donationRefundId = (donationId: string): string => `refund-${donationId}`;
