import { moveSettledEvent } from "../meterEvents.sql.ts";
import { redispatchRefunds } from "../usageFacts.sql.ts";
import type { HandSettlement } from "./decideHandSettlement.rules.ts";
import { decideHandSettlement } from "./decideHandSettlement.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { lockMeterEvent } from "./getMeterEvent.ts";
import { requireClosable } from "./requireClosable.ts";

/**
 * Records that an operator has settled a meter event by hand, with an invoice item or a credit note, so that it counts
 * neither as failed nor as late. Its usage is never sent again.
 * @param expectedUnits the units that the operator has settled; null if the event's units are not to be checked
 * @returns the event's units, and whether it was settled with this reference before
 * @throws DomainError record_not_found if there is no such event; request_invalid if it needs no settlement, has another,
 * does not have the expected units, or has failed since drift of its minute was acknowledged
 */
export const settleUsage = (
  { db, clock, actor }: OperatorContext,
  meterEventId: bigint,
  settlement: HandSettlement,
  { reason, expectedUnits }: { readonly reason: string; readonly expectedUnits: number | null },
): Promise<{ readonly quantity: number; readonly replayed: boolean }> =>
  db.transaction(async (transaction) => {
    const event = await lockMeterEvent(transaction, meterEventId);
    const { quantity } = event;
    const state = decideHandSettlement(event, settlement);
    if (expectedUnits !== null && expectedUnits !== quantity) {
      throw invalidRequest(
        `meter event ${meterEventId} has ${counted(quantity, "unit")}, not ${expectedUnits}`,
      );
    }
    await requireClosable(transaction, event);
    if (state !== "settled") {
      const now = await readDatabaseTime(transaction, clock);
      await moveSettledEvent(transaction, meterEventId, {
        state,
        acceptedQuantity: null,
        document: settlement,
        note: `settled: ${reason}`,
        settledAt: now,
      });
      // The workflows of refunds in a failed event have failed.
      await redispatchRefunds(transaction, meterEventId);
      await recordAction(transaction, actor, now, {
        action: "usage.settle",
        accountId: event.accountId,
        subject: String(meterEventId),
        details: { ...settlement, quantity },
      });
    }
    return { quantity, replayed: state === "settled" };
  });
