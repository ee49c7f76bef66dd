import { z } from "zod";
import { BALANCE_ENTRY_KINDS } from "./stores.rules.ts";
import type { BalanceEntryKind } from "./stores.rules.ts";

/*
 * An entry of a store's ledger as clients see it: in the balance and in files.
 */

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
    reference: z.string().nullable().meta({
      description:
        "The operator's reference of a top-up or an adjustment, such as the number of an invoice.",
    }),
    note: z.string(),
    created_at: z.iso.datetime(),
  })
  .meta({ id: "BalanceEntry" });

/** The columns of CSV. */
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
