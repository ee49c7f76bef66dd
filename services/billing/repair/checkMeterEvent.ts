import type { DatabasePool } from "slonik";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import type { Clock } from "../../../domain/clock.ts";
import { DomainError } from "../../../domain/errors.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { checkDelivery } from "../sending/checkDelivery.ts";
import type { DeliveryCheck } from "../sending/checkDelivery.ts";

const TIMEOUT_MS = 20_000;

/**
 * Checks for an operator whether the processor has a meter event.
 * @throws DomainError request_invalid if the processor is not configured
 * @throws Error if the processor cannot be reached
 */
export const checkMeterEvent = async (
  {
    db,
    clock,
    billing,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly billing: Billing },
  event: StoredMeterEvent,
): Promise<DeliveryCheck> => {
  const processor = billing.findProcessor(event.processor, event.mode);
  if (!processor) {
    throw new DomainError(
      "request_invalid",
      `meter event ${event.id}: ${event.processor} is not configured, so its usage cannot be checked`,
    );
  }
  const now = await readDatabaseTime(db, clock);
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  return checkDelivery(processor, db, event, { now, signal });
};
