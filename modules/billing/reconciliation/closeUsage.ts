import { moveSettledEvent } from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { redispatchRefunds } from "../usageFacts.sql.ts";
import type { HandSettlement } from "./closeUsage.rules.ts";
import { decideHandSettlement, requireWaivable } from "./closeUsage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { Action } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { lockMeterEvent } from "./getMeterEvent.ts";
import { isWaivableRefund } from "../meterEventReports.sql.ts";
import { sumBilledRefunds, sumSentRefunds } from "../refundUsage.sql.ts";
import type { DatabaseTransactionConnection } from "slonik";
import { readMinuteUsage } from "./minuteUsage.sql.ts";
import { streamOfEvent } from "./reportedStreams.sql.ts";
import { minuteOf } from "../usage.rules.ts";

/**
 * Checks that an event may be closed without a check of the processor's sums. If it has failed since drift of its minute was
 * acknowledged, the drift may be its usage. Once it is closed, checks would count the acknowledged units as other usage of
 * the minute, which would never be billed. Must run under the stream's lock.
 * @throws DomainError request_invalid
 */
const requireClosable = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
): Promise<void> => {
  const stream = streamOfEvent(event);
  const { failedSinceIds } = await readMinuteUsage(transaction, stream, minuteOf(event.second));
  if (failedSinceIds.includes(String(event.id))) {
    throw invalidRequest(
      `meter event ${event.id} counted as delivered when drift of its minute was acknowledged; run \`impact usage retry ${event.id}\`, which sends nothing that this drift explains; if it was billed by hand after that, pass \`--assume delivered\`, acknowledge the new difference, and if \`impact usage list --state late\` lists the event, record the document with \`impact usage settle\``,
    );
  }
};

/** Moves an event to a state in which it needs no operator any more. */
const close = async (
  transaction: DatabaseTransactionConnection,
  { clock, actor }: OperatorContext,
  { id, accountId }: StoredMeterEvent,
  change: Pick<Parameters<typeof moveSettledEvent>[2], "state" | "note" | "document">,
  action: Action,
): Promise<void> => {
  const now = await readDatabaseTime(transaction, clock);
  await moveSettledEvent(transaction, id, { ...change, acceptedQuantity: null, settledAt: now });
  // The workflows of refunds in a failed event have failed.
  await redispatchRefunds(transaction, id);
  await recordAction(transaction, actor, now, { ...action, accountId, subject: String(id) });
};

/**
 * Records that an operator has settled a meter event by hand, with an invoice item or a credit note, so that it counts
 * neither as failed nor as late. Its usage is never sent again.
 * @param expectedUnits the units that the operator has settled; null if the event's units are not to be checked
 * @returns the event's units, and whether it was settled with this reference before
 * @throws DomainError record_not_found if there is no such event; request_invalid if it needs no settlement, has another,
 * does not have the expected units, or has failed since drift of its minute was acknowledged
 */
export const settleUsage = (
  context: OperatorContext,
  meterEventId: bigint,
  settlement: HandSettlement,
  { reason, expectedUnits }: { readonly reason: string; readonly expectedUnits: number | null },
): Promise<{ readonly quantity: number; readonly replayed: boolean }> =>
  context.db.transaction(async (transaction) => {
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
      const change = { state, document: settlement, note: `settled: ${reason}` };
      const details = { ...settlement, quantity };
      await close(transaction, context, event, change, { action: "usage.settle", details });
    }
    return { quantity, replayed: state === "settled" };
  });

/**
 * Closes a failed meter event whose usage will never be sent: it was invoiced by hand, or the processor will never accept
 * it. Later refunds of it are held, because the processor has nothing to take back; they are closed in the same way.
 * @param reason recorded in the event's last error
 * @throws DomainError record_not_found if there is no such event; request_invalid if it has not failed and is no waivable
 * refund, the processor has refunds of it or units that it refunds, or it has failed since drift of its minute was acknowledged
 */
export const waiveUsage = (
  context: OperatorContext,
  meterEventId: bigint,
  reason: string,
): Promise<void> =>
  context.db.transaction(async (transaction) => {
    const event = await lockMeterEvent(transaction, meterEventId);
    requireWaivable(event, {
      refundedUnits: await sumSentRefunds(transaction, meterEventId),
      isWaivableRefund: await isWaivableRefund(transaction, meterEventId),
      billedUnits: await sumBilledRefunds(transaction, meterEventId),
    });
    await requireClosable(transaction, event);
    const details = { quantity: event.quantity };
    const change = { state: "waived", note: `waived: ${reason}` } as const;
    await close(transaction, context, event, change, { action: "usage.waive", details });
  });
