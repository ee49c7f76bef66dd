import type { CommonQueryMethods } from "slonik";
import { listMeterEventIdsOfEndedPeriods } from "../../db/billing/meterEventReports.ts";
import type { StoredMeterEvent } from "../../db/billing/meterEvents.ts";
import { DEFAULT_GRACE_MS } from "../../domain/billing/meterEvents.ts";

/**
 * Returns whether usage that the processor turns out to have may be on no invoice, because its billing period had ended.
 * @param deliveredBy the latest time at which it can have been delivered
 */
export const isLateDelivery = async (
  db: CommonQueryMethods,
  { id }: Pick<StoredMeterEvent, "id">,
  deliveredBy: Date,
): Promise<boolean> => {
  const ends = { now: deliveredBy, graceMs: DEFAULT_GRACE_MS };
  return (await listMeterEventIdsOfEndedPeriods(db, [id], ends)).length > 0;
};
