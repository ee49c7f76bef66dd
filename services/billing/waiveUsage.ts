import type { DatabasePool } from "slonik";
import { findMeterEvent, lockStream, moveSettledEvent } from "../../db/billing/meterEvents.ts";
import { redispatchRefunds } from "../../db/billing/usageFacts.ts";
import { isFailed } from "../../domain/billing/meterEvents.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";

/**
 * Closes a failed meter event whose usage will never be sent: it was invoiced by hand, or the processor will never accept
 * it. Later refunds of it are held, because the processor has nothing to take back.
 * @param reason recorded in the event's last error
 * @throws DomainError record_not_found if there is no such event, request_invalid if it has not failed
 */
export const waiveUsage = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  meterEventId: bigint,
  reason: string,
): Promise<void> =>
  db.transaction(async (transaction) => {
    const event = await findMeterEvent(transaction, meterEventId);
    if (!event) {
      throw new DomainError("record_not_found", `meter event ${meterEventId} not found`);
    }
    await lockStream(transaction, event);
    const state = (await findMeterEvent(transaction, meterEventId))?.state ?? event.state;
    if (!isFailed(state)) {
      throw new DomainError(
        "request_invalid",
        `meter event ${meterEventId} is ${state}: there is nothing to waive`,
      );
    }
    await moveSettledEvent(transaction, meterEventId, {
      state: "waived",
      acceptedQuantity: null,
      note: `waived: ${reason}`,
      settledAt: clock.now(),
    });
    await redispatchRefunds(transaction, meterEventId);
  });
