import { z } from "zod";
import { shownIdOf } from "../records/recordIds.rules.ts";
import type { ImpactRecord } from "./customers.rules.ts";

/*
 * A store's registration as clients see it: in lists and files.
 */

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
    customer_name: z.string().meta({ description: "Empty if none was given." }),
    customer_email: z.string(),
    customer_id: z.string(),
    order_id: z.string(),
    notes: z.string(),
    created_at: z.iso.datetime().meta({ examples: ["2025-06-01T12:00:00.000000Z"] }),
  })
  .meta({ id: "ImpactRecord" });

/** The columns of CSV. */
export const IMPACT_RECORD_COLUMNS = Object.keys(impactRecordJson.shape);

export const presentImpactRecord = (record: ImpactRecord): z.output<typeof impactRecordJson> => ({
  id: shownIdOf(record),
  count: record.count,
  refunded_count: record.refundedCount,
  customer_name: record.customerName ?? "",
  customer_email: record.customerEmail ?? "",
  customer_id: record.customerId ?? "",
  order_id: record.orderId ?? "",
  notes: record.notes ?? "",
  created_at: record.position,
});
