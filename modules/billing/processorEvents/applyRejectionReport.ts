import {
  recordLateRefusal,
  lockMeterEvents,
  listMeterEventsByIdentifier,
} from "../meterEvents.sql.ts";
import type { StoredMeterEvent } from "../meterEvents.sql.ts";
import { lockStream } from "../streams.sql.ts";
import { findLeftEventIds, saveUsageRejection } from "./processorEvents.sql.ts";
import { decideLateRejection, identifierOf } from "./processorEvents.rules.ts";
import type { RejectionReport } from "./processorEvents.rules.ts";
import type { Context } from "../../../runtime/context.ts";
import { readDatabaseTime } from "../readDatabaseTime.ts";
import { recordUsageEvent } from "../recordUsageEvent.ts";

/** A delivered meter event that the processor turned out to have refused, and that needs an operator. */
export type LateRejection = { readonly event: StoredMeterEvent; readonly reason: string };

export type RejectionObserver = {
  /** Called for every meter event that the report has made a failed one. */
  readonly observeRejection: (rejection: LateRejection) => void;
};

/**
 * Records that the processor refuses an event that it had accepted. A retry asks it first: what it lacks may have been sent again
 * already, to make up for a difference or in a history that was lost.
 * @returns whether the event is still being sent, so that the report has to be applied later
 */
const refuseDelivered = async (
  { db, clock, observeRejection }: Context & RejectionObserver,
  { id, ...stream }: StoredMeterEvent,
  { report, reason }: { readonly report: RejectionReport; readonly reason: string },
): Promise<boolean> => {
  const [event, decision] = await db.transaction(async (transaction) => {
    await lockStream(transaction, stream);
    // It may have been delivered since it was listed.
    const [current] = await lockMeterEvents(transaction, [id]);
    const decided = current ? decideLateRejection(current, report) : null;
    if (current && (decided === "failed" || decided === "closed")) {
      const deliveredAt = current.settledAt?.toISOString() ?? "an unknown time";
      const note = `refused after it was delivered at ${deliveredAt}: ${reason}`;
      await recordLateRefusal(transaction, id, { state: decided, note });
      const now = await readDatabaseTime(transaction, clock);
      await recordUsageEvent(transaction, current, decided, now);
    }
    return [current, decided] as const;
  });
  if (event && decision === "failed") {
    observeRejection({ event, reason });
  }
  return decision === "wait";
};

/**
 * Applies a report of usage that the processor refused after it had accepted it: the delivered meter events that its
 * samples name become failed ones, or closed ones if a document bills them, and the counts of all others are stored for
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
    const events = await listMeterEventsByIdentifier(context.db, "stripe", [...reasons.keys()]);
    const left = await findLeftEventIds(context.db, processorEventId, code);
    const leftEventIds: bigint[] = [];
    for (const event of events.filter(({ id }) => left === null || left.has(id))) {
      const reason = `${code}: ${reasons.get(event.identifier)}`;
      if (await refuseDelivered(context, event, { report, reason })) {
        leftEventIds.push(event.id);
      }
    }
    await saveUsageRejection(context.db, processorEventId, report, {
      code,
      errors,
      named: Math.min(events.length, errors),
      leftEventIds,
    });
    unsettled.push(...leftEventIds);
  }
  if (unsettled.length > 0) {
    throw new Error(`These refused meter events are still being sent: ${unsettled.join(", ")}.`);
  }
};
