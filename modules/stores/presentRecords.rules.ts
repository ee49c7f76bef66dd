import { z } from "zod";
import { shownIdOf } from "../records/recordIds.rules.ts";
import type { ImpactRecord, DonationCustomer } from "./customers.rules.ts";
import { presentGift } from "../charities/presentDonation.rules.ts";
import type { Donation } from "../charities/donations.rules.ts";
import { centsToDollars } from "../records/money.rules.ts";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";
import type { BalanceEntryKind } from "./stores.rules.ts";

/*
 * A store's registrations, donations and entries of its ledger as clients see them: in lists and files. The columns are
 * those of CSV.
 */

const customerJson = {
  customer_name: z.string().meta({ description: "Empty if none was given." }),
  customer_email: z.string(),
  customer_id: z.string(),
  order_id: z.string(),
};

const presentCustomer = (record: DonationCustomer) => ({
  customer_name: record.customerName ?? "",
  customer_email: record.customerEmail ?? "",
  customer_id: record.customerId ?? "",
  order_id: record.orderId ?? "",
});

export const impactRecordJson = z
  .strictObject({
    id: z.string().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e11"] }),
    count: z
      .int()
      .min(1)
      .meta({ description: "Units as recorded; refunds do not change it.", examples: [3] }),
    refunded_count: z
      .int()
      .min(0)
      .meta({ description: "Refunded units.", examples: [0] }),
    ...customerJson,
    notes: z.string(),
    created_at: z.iso.datetime().meta({ examples: ["2025-06-01T12:00:00.000000Z"] }),
  })
  .meta({ id: "ImpactRecord" });

export const presentImpactRecord = (record: ImpactRecord): z.output<typeof impactRecordJson> => ({
  id: shownIdOf(record),
  count: record.count,
  refunded_count: record.refundedCount,
  ...presentCustomer(record),
  notes: record.notes ?? "",
  created_at: record.position,
});

export const donationRecordJson = z
  .strictObject({
    id: z.string().meta({ examples: ["0198c5de-7c1f-7b52-a3a1-3f1f9a0c9e22"] }),
    amount: z.number().meta({ description: "US dollars." }),
    amount_cents: z.int().min(1),
    currency: z.literal("USD"),
    charity_name: z.string(),
    ein: z.string().meta({ description: "Empty if the charity has none." }),
    nonprofit_id: z.string().meta({ description: "The charity's id at its provider." }),
    ...customerJson,
    refunded: z.boolean(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "DonationRecord" });

export const presentDonationRecord = (
  donation: Pick<
    Donation,
    "id" | "importedId" | "amountCents" | "ein" | "nonprofitId" | "charityName" | "refunded"
  > &
    DonationCustomer & { readonly position: string },
): z.output<typeof donationRecordJson> => ({
  id: shownIdOf(donation),
  amount: centsToDollars(donation.amountCents),
  ...presentGift(donation),
  ...presentCustomer(donation),
  refunded: donation.refunded,
  created_at: donation.position,
});

export const balanceEntryJson = z
  .strictObject({
    id: z.string().meta({ examples: ["4711"] }),
    kind: z.enum(BALANCE_ENTRY_KINDS),
    amount_cents: z.int().meta({ description: "Negative for what was spent." }),
    balance_cents: z.int().min(0).meta({ description: "The balance after this entry." }),
    quantity: z.int().nullable().meta({ description: "Number of trees or bottles." }),
    record_id: z
      .string()
      .nullable()
      .meta({ description: "The tree record, plastic record or donation that was paid for." }),
    reference: z
      .string()
      .nullable()
      .meta({
        description:
          "Of a payment through Stripe, its Checkout session. Of another top-up or an adjustment, the operator's, such as " +
          "the number of an invoice.",
      }),
    note: z.string(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "BalanceEntry" });

export const BALANCE_COLUMNS = Object.keys(balanceEntryJson.shape);

export const presentBalanceEntry = (entry: {
  readonly id: string;
  readonly kind: BalanceEntryKind;
  readonly amountCents: number;
  readonly balanceCents: number;
  readonly quantity: number | null;
  readonly recordId: string | null;
  readonly reference: string | null;
  readonly note: string;
  readonly createdAt: string;
}): z.output<typeof balanceEntryJson> => ({
  id: entry.id,
  kind: entry.kind,
  amount_cents: entry.amountCents,
  balance_cents: entry.balanceCents,
  quantity: entry.quantity,
  record_id: entry.recordId,
  reference: entry.reference,
  note: entry.note,
  created_at: entry.createdAt,
});
