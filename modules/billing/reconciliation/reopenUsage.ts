import { hasFacts } from "../usageFacts.sql.ts";
import { requireNoHandSettlement } from "./closeUsage.rules.ts";
import { decideReopenAfterCheck, requireDelivered } from "./decideRetry.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import type { BillingContext } from "../context.ts";
import { applyOutcome } from "./applyOutcome.ts";
import { checkCustomers } from "./checkCustomers.ts";
import { getMeterEvent } from "./getMeterEvent.ts";
import { requireUnchanged } from "./requireUnchanged.ts";

/**
 * Reopens a delivered meter event that the processor has lost: its facts are released and sealed in a new event. It is
 * allowed only if the processor's sum of its minute lacks exactly this event, and no other customer has it.
 * @returns how many units are sent again; with `isDryRun` nothing is changed
 * @throws DomainError record_not_found if there is no such event; request_invalid if it was not delivered, the sums do not
 * show that it is missing, or it was changed concurrently
 */
export const reopenUsage = async (
  context: BillingContext & OperatorContext,
  meterEventId: bigint,
  { reason, isDryRun }: { readonly reason: string; readonly isDryRun: boolean },
): Promise<{ readonly quantity: number }> => {
  const { db, clock, actor } = context;
  const event = await getMeterEvent(db, meterEventId);
  requireDelivered(event);
  requireNoHandSettlement(event);
  if (!(await hasFacts(db, meterEventId))) {
    throw invalidRequest(
      `meter event ${meterEventId}: its facts were sealed again in a later event; bill what the processor lacks by hand, and acknowledge the difference`,
    );
  }
  const { decisive, decisiveCustomerId, ...decided } = await checkCustomers(context, event);
  const state = decideReopenAfterCheck(event, decisive.outcome, decisiveCustomerId);
  const { quantity } = event;
  if (isDryRun) {
    return { quantity };
  }
  return db.transaction(async (transaction) => {
    await requireUnchanged(transaction, { events: [event], ...decided });
    const now = await readDatabaseTime(transaction, clock);
    await applyOutcome(
      transaction,
      event,
      { state, acceptedQuantity: null, customerId: null },
      { note: `reopened: ${reason}`, settledAt: now, deliveredBy: now, heldRefunds: null, now },
    );
    await recordAction(transaction, actor, now, {
      action: "usage.reopen",
      accountId: event.accountId,
      subject: String(meterEventId),
      details: { quantity },
    });
    return { quantity };
  });
};
