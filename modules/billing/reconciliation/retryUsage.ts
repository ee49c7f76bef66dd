import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { isDriftAcknowledged } from "./acknowledgedDrift.sql.ts";
import { streamOfEvent } from "./reportedStreams.sql.ts";
import { requireCustomer } from "./usageInDoubt.rules.ts";
import { requireNoHandSettlement } from "./closeUsage.rules.ts";
import {
  decideRetry,
  decideRetryAfterCheck,
  decideReopenAfterCheck,
  requireDelivered,
} from "./decideRetry.rules.ts";
import type { AssumedOutcome, Retried } from "./decideRetry.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import { counted } from "../../../runtime/counted.rules.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import type { OperatorContext } from "../../accounts/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import type { BillingContext } from "../context.ts";
import { applyOutcome } from "./applyOutcome.ts";
import { checkCustomers, listCustomers } from "./checkCustomers.ts";
import { getMeterEvent } from "./getMeterEvent.ts";
import type { Decided } from "./requireUnchanged.ts";
import { requireUnchanged } from "./requireUnchanged.ts";
import { hasFacts } from "../usageFacts.sql.ts";
import { invalidRequest } from "../../../runtime/errors.rules.ts";

/** What an operator has found out about an outcome that the processor's sums leave unclear. */
type Assumption = {
  readonly assumed: AssumedOutcome | null;
  /** The customer that has usage which is assumed to be delivered; null: the only one that may have it. */
  readonly customerId: string | null;
};

/** What the retry leads to, the customer that the event is of then, and what this depends on. Without minutes, no sum was read. */
type Decision = Retried & {
  readonly customerId: string | null;
} & Pick<Decided, "minutes" | "customers">;

const decide = async (
  context: BillingContext & OperatorContext,
  event: StoredMeterEvent,
  { assumed, customerId: named }: Assumption,
): Promise<Decision> => {
  // The usage may be what the processor lacked when an operator settled the difference by hand and acknowledged it.
  const outcomeUnknown =
    event.outcomeUnknown ||
    (await isDriftAcknowledged(context.db, streamOfEvent(event), minuteOf(event.second)));
  const decision = decideRetry({ ...event, outcomeUnknown }, assumed);
  if (decision !== "check" && decision.state !== "delivered") {
    return { ...decision, customerId: event.customerId, minutes: [], customers: new Map() };
  }
  if (decision !== "check") {
    const { possible, customers } = await listCustomers(context, event);
    const customerId = requireCustomer(event, possible, named);
    return { ...decision, customerId, minutes: [], customers };
  }
  const { decisive, decisiveCustomerId, ...decided } = await checkCustomers(context, event);
  const checked = decideRetryAfterCheck(event, decisive.outcome, decisiveCustomerId);
  const { customerId } = checked.state === "delivered" ? decisive.event : event;
  return { ...checked, customerId, ...decided };
};

/**
 * Retries the usage of a failed meter event. Its facts, and the refunds that were held because of it, are released and
 * sealed in a new event, so no identifier is ever used for two sums. Usage that the processor has is not sent again: if it
 * has a part of the event, only the difference is sent.
 * @returns `waiting` if the facts will be sent again, `delivered` if the processor has the usage
 * @throws DomainError record_not_found if there is no such event; request_invalid if it has not failed, it is unclear
 * whether or to which customer it was delivered, or it was changed concurrently
 */
export const retryUsage = async (
  context: BillingContext & OperatorContext,
  meterEventId: bigint,
  assumption: Assumption = { assumed: null, customerId: null },
): Promise<"waiting" | "delivered"> => {
  const { db, clock, actor } = context;
  const event = await getMeterEvent(db, meterEventId);
  requireNoHandSettlement(event);
  const { state, acceptedQuantity, customerId, minutes, customers } = await decide(
    context,
    event,
    assumption,
  );
  return db.transaction(async (transaction) => {
    await requireUnchanged(transaction, { events: [event], minutes, customers });
    const now = await readDatabaseTime(transaction, clock);
    await applyOutcome(
      transaction,
      event,
      { state, acceptedQuantity, customerId },
      {
        note:
          acceptedQuantity === null
            ? null
            : `the processor had ${counted(acceptedQuantity, "unit")} of it`,
        // What the sums have shown needs no time any more. So checks of the minute's other events need not wait again.
        settledAt:
          state === "delivered" && minutes.length > 0 && event.settledAt !== null
            ? event.settledAt
            : now,
        deliveredBy: now,
        heldRefunds: event.state !== "waived" ? "none" : minutes.length > 0 ? "all" : "neverSent",
        now,
      },
    );
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: event.accountId,
      subject: String(meterEventId),
      details: { quantity: event.quantity, ...assumption },
    });
    return state === "delivered" && acceptedQuantity === null ? "delivered" : "waiting";
  });
};

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
