import { z } from "zod";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";

/*
 * A store's registrations, donations and entries of its ledger as clients see them: in lists and files. The fields are the
 * columns of CSV. The queries return them so.
 */

const customerJson = {
  customer_name: z.string().meta({ description: "Empty if none was given." }),
  customer_email: z.string(),
  customer_id: z.string(),
  order_id: z.string(),
};

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
      .describe(
        "Of a payment through Stripe, its Checkout session. Of another top-up or an adjustment, the operator's, such as " +
          "the number of an invoice.",
      ),
    note: z.string(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "BalanceEntry" });
