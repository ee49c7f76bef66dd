import { z } from "zod";
import { CHARITY_PROVIDERS } from "../accounts/accounts.rules.ts";
import { storedMetadata } from "../records/fields.rules.ts";
import { shownIdOf } from "../records/recordIds.rules.ts";
import { formatEin } from "./charities.rules.ts";
import type { CharityIds } from "./charities.rules.ts";

/** The columns that every reader of a donation needs. The amount is in whole US cents. */
export const donationCore = z.strictObject({
  id: z.string(),
  /** The id in the system that the donation was imported from; null if it was recorded here. */
  importedId: z.string().nullable(),
  amountCents: z.coerce.number().pipe(z.int()),
  ein: z.string().nullable(),
  nonprofitId: z.string(),
  charityName: z.string(),
  createdAt: z.date(),
  refunded: z.boolean(),
});

export const donationRow = donationCore.extend({
  charityProvider: z.enum(CHARITY_PROVIDERS),
  idempotencyKey: z.string().nullable(),
  attribution: z.string(),
  metadata: z.record(z.string(), z.unknown()),
});
export type Donation = Readonly<z.output<typeof donationRow>>;

/** A donation to be recorded, with the charity's own name: a client may have given another one. */
export type ConfirmedDonation = Omit<Donation, "createdAt"> & { readonly confirmedName: string };

export type DonationRequest = Pick<
  Donation,
  "amountCents" | "idempotencyKey" | "attribution" | "metadata"
> & {
  readonly charity: CharityIds;
  /** Null for the charity's own name. */
  readonly charityName: string | null;
};

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

/** A donation as clients see it: in responses, lists and files. */
export const donationJson = z
  .strictObject({
    id: z.string().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22"] }),
    amount_cents: z
      .int()
      .min(1)
      .meta({ examples: [500] }),
    currency: z.literal("USD"),
    ein: z
      .string()
      .meta({ description: "Empty if the charity has none.", examples: ["53-0196605"] }),
    nonprofit_id: z.string().meta({ examples: ["irs_530196605"] }),
    charity_name: z.string().meta({ examples: ["American Red Cross"] }),
    created_at: z.iso.datetime().meta({ examples: ["2025-06-01T12:00:00.000Z"] }),
    idempotency_key: z
      .string()
      .optional()
      .meta({ description: "Present if one was given.", examples: ["order-1001"] }),
    attribution: z.string().meta({ examples: ["newsletter"] }),
    metadata: storedMetadata.meta({ examples: [{ campaign: "spring" }] }),
    refunded: z.boolean(),
  })
  .meta({ id: "Donation" });

export const DONATION_COLUMNS = Object.keys(donationJson.shape);

type NamedDonation = Omit<z.output<typeof donationCore>, "createdAt">;

/** Returns what every form of a donation says of its amount and its charity. */
const presentGift = (donation: NamedDonation) => ({
  amount_cents: donation.amountCents,
  currency: "USD" as const,
  ein: formatEin(donation.ein),
  nonprofit_id: donation.nonprofitId,
  charity_name: donation.charityName,
});

export const presentDonation = (donation: Donation): z.output<typeof donationJson> => ({
  id: shownIdOf(donation),
  ...presentGift(donation),
  created_at: donation.createdAt.toISOString(),
  ...(donation.idempotencyKey === null ? {} : { idempotency_key: donation.idempotencyKey }),
  attribution: donation.attribution,
  metadata: donation.metadata,
  refunded: donation.refunded,
});

export const donationCreated = (donation: Omit<Donation, "createdAt">) => ({
  type: "donation.created" as const,
  data: {
    donation_id: shownIdOf(donation),
    ...presentGift(donation),
    idempotency_key: donation.idempotencyKey ?? "",
    attribution: donation.attribution,
    metadata: donation.metadata,
  },
});

export const donationRefunded = (donation: NamedDonation, reason: string | null) => ({
  type: "donation.refunded" as const,
  data: { donation_id: shownIdOf(donation), ...presentGift(donation), reason: reason ?? "" },
});
