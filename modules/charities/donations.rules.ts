import type { CharityProviderName } from "../accounts/accounts.rules.ts";
import type { Metadata } from "../records/fields.rules.ts";
import type { CharityIds, Ein } from "./charities.rules.ts";

/** A recorded donation; the amount is in whole US cents. */
export type Donation = {
  readonly id: string;
  /** The id in the system that the donation was imported from; null if it was recorded here. */
  readonly importedId: string | null;
  readonly amountCents: number;
  readonly ein: Ein | null;
  /** The charity's id at the provider. */
  readonly nonprofitId: string;
  readonly charityProvider: CharityProviderName;
  readonly charityName: string;
  readonly createdAt: Date;
  /** Null if the client sent none. */
  readonly idempotencyKey: string | null;
  readonly attribution: string;
  readonly metadata: Metadata;
  readonly refunded: boolean;
};

/** A donation to be recorded, with the charity's own name: a client may have given another one. */
export type ConfirmedDonation = Omit<Donation, "createdAt"> & { readonly confirmedName: string };

/** A client's request to record a donation. */
export type DonationRequest = Pick<
  Donation,
  "amountCents" | "idempotencyKey" | "attribution" | "metadata"
> & {
  readonly charity: CharityIds;
  /** Null for the charity's own name. */
  readonly charityName: string | null;
};

/** Donations that are not refunded. */
export type DonationTotals = { readonly count: number; readonly amountCents: number };

/** Which of an owner's donations to list; all conditions must hold. */
export type DonationFilter = {
  readonly attribution?: string | undefined;
  readonly metadataKey?: string | undefined;
  /** A string itself, or the text of any other value. */
  readonly metadataValue?: string | undefined;
  /** Inclusive. */
  readonly from?: Date | undefined;
  /** Exclusive. */
  readonly until?: Date | undefined;
};

/** The id of a refund, as clients see it. */
export const donationRefundId = (donationId: string): string => `refund-${donationId}`;
