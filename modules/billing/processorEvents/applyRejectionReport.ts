import type { DatabaseTransactionConnection } from "slonik";
import { readDeployment } from "../deployment.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import {
  findMeterEvent,
  listMeterEventsByIdentifier,
  moveSettledEvent,
} from "../meterEvents.sql.ts";
import { isDriftAcknowledged } from "../reconciliation/acknowledgedDrift.sql.ts";
import { streamOfEvent } from "../reconciliation/reportedStreams.sql.ts";
import { lockStream } from "../streams.sql.ts";
import { hasFacts } from "../usageFacts.sql.ts";
import { findLeftEventIds, saveUsageRejection } from "./processorEvents.sql.ts";
import { findHold } from "../deployment.rules.ts";
import { decideLateRejection, identifierOf, isInReport } from "./processorEvents.rules.ts";
import type { RejectionReport } from "./processorEvents.rules.ts";
import { minuteOf } from "../usage.rules.ts";
import type { Context } from "../../../runtime/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";

/** A delivered meter event that the processor turned out to have refused, and that needs an operator. */
export type LateRejection = {
  readonly event: StoredMeterEvent;
  readonly state: "rejected" | "blocked";
  readonly reason: string;
};

export type RejectionObserver = {
  /** Called for every meter event that the report has made a failed one. */
  readonly observeRejection: (rejection: LateRejection) => void;
};

/** `unknown`: its facts were released to a later event, so nothing can be sent again; reconciliation shows the drift. */
type Result = "known" | "unknown" | "wait";

/**
 * Returns the state of a delivered event that the processor refuses. It stays delivered if an operator's document bills it,
 * and drift of its minute is acknowledged, which may be its usage. No retry could find a failed event with a document
 * delivered, so checks would count the acknowledged units as other usage of the minute. If the drift is other usage, the
 * event's is a new difference.
 */
const stateAfterRefusal = async (
  transaction: DatabaseTransactionConnection,
  event: StoredMeterEvent,
  decided: "rejected" | "blocked" | "waived",
): Promise<"rejected" | "blocked" | "waived" | "delivered"> =>
  decided === "waived" &&
  (await isDriftAcknowledged(transaction, streamOfEvent(event), minuteOf(event.second)))
    ? "delivered"
    : decided;

const refuseDelivered = async (
  { db, clock, observeRejection }: Context & RejectionObserver,
  event: StoredMeterEvent,
  { report, reason }: { readonly report: RejectionReport; readonly reason: string },
): Promise<Result> => {
  if (!(await hasFacts(db, event.id)) && event.state === "delivered") {
    return "unknown";
  }
  const decision = await db.transaction(async (transaction) => {
    await lockStream(transaction, event);
    const current = await findMeterEvent(transaction, event.id);
    const deployment = await readDeployment(transaction);
    const holds = { isHeld: findHold(deployment) !== null, releasedAt: deployment.releasedAt };
    // It may have been delivered since it was listed.
    const decided =
      current && isInReport(current, report) ? decideLateRejection(current, holds) : null;
    if (current && decided !== null && decided !== "wait") {
      const now = await readDatabaseTime(transaction, clock);
      const state = await stateAfterRefusal(transaction, current, decided);
      const deliveredAt = current.settledAt?.toISOString() ?? "an unknown time";
      const note = `refused after it was delivered at ${deliveredAt}: ${reason}`;
      if (state === "delivered" && current.lastError?.startsWith(note)) {
        return decided;
      }
      await moveSettledEvent(transaction, event.id, {
        state,
        acceptedQuantity: null,
        note,
        // It was not delivered now: the processor's sums would count as lagging.
        settledAt: state === "delivered" ? (current.settledAt ?? now) : now,
      });
      await recordUsageEvent(transaction, current, state, now);
    }
    return decided;
  });
  if (decision === "rejected" || decision === "blocked") {
    observeRejection({ event, state: decision, reason });
  }
  return decision === "wait" ? "wait" : "known";
};

/**
 * Applies a report of usage that the processor refused after it had accepted it: the delivered meter events that its
 * samples name become failed ones, or waived ones if they were settled by hand, and the counts of all others are stored for
 * operators. A repeated call considers only the events that were still being sent: the others may have been retried since,
 * and found to be delivered. Samples of other programs that use the same processor are skipped.
 * @throws Error if a named meter event is still being sent; all others have been changed by then
 */
export const applyRejectionReport = async (
  context: Context & RejectionObserver,
  processorEventId: string,
  report: RejectionReport,
): Promise<void> => {
  const unsettled: bigint[] = [];
  for (const { code, errors, samples } of report.rejections) {
    const reasons = new Map(
      samples.map(({ identifier, message }) => [identifierOf(identifier), message]),
    );
    const identified = await listMeterEventsByIdentifier(context.db, "stripe", [...reasons.keys()]);
    const events = identified.filter((event) => isInReport(event, report));
    const left = await findLeftEventIds(context.db, processorEventId, code);
    const leftEventIds: bigint[] = [];
    let named = 0;
    for (const event of events.filter(({ id }) => left === null || left.has(id))) {
      const reason = `${code}: ${reasons.get(event.identifier)}`;
      const result = await refuseDelivered(context, event, { report, reason });
      if (result === "wait") {
        leftEventIds.push(event.id);
      }
      named += result === "unknown" ? 0 : 1;
    }
    await saveUsageRejection(context.db, processorEventId, report, {
      code,
      errors,
      named: Math.min(named, errors),
      leftEventIds,
    });
    unsettled.push(...leftEventIds);
  }
  if (unsettled.length > 0) {
    throw new Error(`These refused meter events are still being sent: ${unsettled.join(", ")}.`);
  }
};
