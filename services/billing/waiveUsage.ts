import type { DatabasePool } from "slonik";
import { findMeterEvent, lockStream, settleFailedEvent } from "../../db/billing/meterEvents.ts";
import type { Clock } from "../../domain/clock.ts";
import { DomainError } from "../../domain/errors.ts";
import { isFailed } from "../../domain/billing/usage.ts";

/**
 * Closes a failed meter event whose usage the processor does not have and shall not get: it was invoiced by hand, or can
 * never be sent. What is refunded of it later is held, since there is nothing at the processor to take back.
 * @param reason in a person's words, kept with the event
 * @throws DomainError record_not_found for no such event, request_invalid for one that has not failed
 */
export const waiveUsage = (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  meterEventId: bigint,
  reason: string,
): Promise<void> =>
  db.transaction(async (transaction) => {
    const event = await findMeterEvent(transaction, meterEventId);
    if (!event) {
      throw new DomainError("record_not_found", `there is no meter event ${meterEventId}`);
    }
    await lockStream(transaction, event);
    const state = (await findMeterEvent(transaction, meterEventId))?.state ?? event.state;
    if (!isFailed(state)) {
      throw new DomainError(
        "request_invalid",
        `meter event ${meterEventId} is ${state}: there is nothing to waive`,
      );
    }
    await settleFailedEvent(transaction, meterEventId, {
      state: "waived",
      note: `waived: ${reason}`,
      settledAt: clock.now(),
    });
  });
