import type { DatabasePool } from "slonik";
import { hasReportableFacts } from "../../../db/billing/meterEventReports.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { isDriftAcknowledged } from "../../../db/billing/reconciliation/acknowledgedDrift.ts";
import { moveSettledEvent } from "../../../db/billing/meterEvents.ts";
import {
  redispatchRefunds,
  releaseFacts,
  releaseHeldRefunds,
} from "../../../db/billing/usageFacts.ts";
import type { Actor } from "../../../domain/accounts/audit.ts";
import { requireNoHandSettlement } from "../../../domain/billing/decideHandSettlement.ts";
import { decideRetry, decideRetryAfterCheck } from "../../../domain/billing/decideRetry.ts";
import type { AssumedOutcome, Retried } from "../../../domain/billing/decideRetry.ts";
import { minuteOf } from "../../../domain/billing/usage.ts";
import type { Clock } from "../../../domain/clock.ts";
import { counted } from "../../../domain/counted.ts";
import type { Billing } from "../../../providers/billing/createBilling.ts";
import { recordAction } from "../../accounts/recordAction.ts";
import { checkMeterEvent } from "./checkMeterEvent.ts";
import { getMeterEvent, lockUnchangedEvents } from "./getMeterEvent.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";

type Dependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
  readonly actor: Actor;
};

/** What the retry leads to. After a check it is valid only while the version of the minute's other events is the same. */
type Decision = Retried & { readonly othersVersion: string | null };

const decide = async (
  deps: Dependencies,
  event: StoredMeterEvent,
  assumed: AssumedOutcome | null,
): Promise<Decision> => {
  // The usage may be what the processor lacked when an operator settled the difference by hand and acknowledged it.
  const outcomeUnknown =
    event.outcomeUnknown ||
    (await isDriftAcknowledged(
      deps.db,
      { ...event, accountIds: [event.accountId] },
      minuteOf(event.second),
    ));
  const decision = decideRetry({ ...event, outcomeUnknown }, assumed);
  if (decision !== "check") {
    return { ...decision, othersVersion: null };
  }
  const { outcome, othersVersion } = await checkMeterEvent(deps, event);
  return { ...decideRetryAfterCheck(event, outcome), othersVersion };
};

/**
 * Retries the usage of a failed meter event. Its facts, and the refunds that were held because of it, are released and
 * sealed in a new event, so no identifier is ever used for two sums. Usage that the processor has is not sent again: if it
 * has a part of the event, only the difference is sent.
 * @param assumed what an operator has found out about an outcome that the processor's sums leave unclear
 * @returns `waiting` if the facts will be sent again, `delivered` if the processor has the usage
 * @throws DomainError record_not_found if there is no such event; request_invalid if it has not failed, it is unclear
 * whether it was delivered, or it was changed concurrently
 */
export const retryUsage = async (
  deps: Dependencies,
  meterEventId: bigint,
  assumed: AssumedOutcome | null = null,
): Promise<"waiting" | "delivered"> => {
  const { db, clock, actor } = deps;
  const event = await getMeterEvent(db, meterEventId);
  requireNoHandSettlement(event);
  const { state, acceptedQuantity, othersVersion } = await decide(deps, event, assumed);
  return db.transaction(async (transaction) => {
    await lockUnchangedEvents(transaction, [event], othersVersion);
    const now = clock.now();
    await moveSettledEvent(transaction, meterEventId, {
      state,
      acceptedQuantity,
      note:
        acceptedQuantity === null
          ? null
          : `the processor had ${counted(acceptedQuantity, "unit")} of it`,
      settledAt: now,
    });
    // Asked only now: refunds in the event itself are not of waived usage any more.
    if (event.state !== "waived" || (await hasReportableFacts(transaction, meterEventId))) {
      await recordUsageEvent(transaction, event, state, now);
    }
    await redispatchRefunds(transaction, meterEventId);
    const areSumsRead = othersVersion !== null;
    await releaseHeldRefunds(
      transaction,
      meterEventId,
      event.state === "waived" ? (areSumsRead ? "all" : "neverSent") : "none",
    );
    await recordAction(transaction, actor, now, {
      action: "usage.retry",
      accountId: event.accountId,
      subject: String(meterEventId),
      details: { quantity: event.quantity, assumed },
    });
    if (state === "delivered" && acceptedQuantity === null) {
      return "delivered";
    }
    await releaseFacts(transaction, meterEventId, acceptedQuantity ?? 0);
    return "waiting";
  });
};
