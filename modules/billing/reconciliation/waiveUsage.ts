import { isWaivableRefund } from "../meterEventReports.sql.ts";
import { moveSettledEvent } from "../meterEvents.sql.ts";
import { sumBilledRefunds, sumSentRefunds } from "../refundUsage.sql.ts";
import { redispatchRefunds } from "../usageFacts.sql.ts";
import { requireWaivable } from "./requireWaivable.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { lockMeterEvent } from "./getMeterEvent.ts";
import { requireClosable } from "./requireClosable.ts";

/**
 * Closes a failed meter event whose usage will never be sent: it was invoiced by hand, or the processor will never accept
 * it. Later refunds of it are held, because the processor has nothing to take back; they are closed in the same way.
 * @param reason recorded in the event's last error
 * @throws DomainError record_not_found if there is no such event; request_invalid if it has not failed and is no waivable
 * refund, the processor has refunds of it or units that it refunds, or it has failed since drift of its minute was acknowledged
 */
export const waiveUsage = (
  { db, clock, actor }: OperatorContext,
  meterEventId: bigint,
  reason: string,
): Promise<void> =>
  db.transaction(async (transaction) => {
    const event = await lockMeterEvent(transaction, meterEventId);
    requireWaivable(event, {
      refundedUnits: await sumSentRefunds(transaction, meterEventId),
      isWaivableRefund: await isWaivableRefund(transaction, meterEventId),
      billedUnits: await sumBilledRefunds(transaction, meterEventId),
    });
    await requireClosable(transaction, event);
    const now = await readDatabaseTime(transaction, clock);
    await moveSettledEvent(transaction, meterEventId, {
      state: "waived",
      acceptedQuantity: null,
      note: `waived: ${reason}`,
      settledAt: now,
    });
    await redispatchRefunds(transaction, meterEventId);
    await recordAction(transaction, actor, now, {
      action: "usage.waive",
      accountId: event.accountId,
      subject: String(meterEventId),
      details: { quantity: event.quantity },
    });
  });
