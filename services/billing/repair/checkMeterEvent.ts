import type { DatabasePool } from "slonik";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import { getProcessor } from "../getProcessor.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { checkDelivery } from "../sending/checkDelivery.ts";
import type { DeliveryCheck } from "../sending/checkDelivery.ts";

const TIMEOUT_MS = 20_000;

/**
 * Checks for an operator whether the processor has a meter event.
 * @throws ProcessorUnavailableError if the processor is not configured or cannot be reached
 */
export const checkMeterEvent = async (
  {
    db,
    clock,
    billing,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  event: StoredMeterEvent,
): Promise<DeliveryCheck> => {
  const processor = getProcessor(billing, event.processor, event.mode);
  const now = await readDatabaseTime(db, clock);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return checkDelivery(processor, db, event, { now, signal });
};
