import type { CommonQueryMethods, DatabaseTransactionConnection } from "slonik";
import { findMeterEvent, lockMeterEventRow } from "../../../db/billing/meterEvents.ts";
import type { StoredMeterEvent } from "../../../db/billing/meterEvents.ts";
import { readMinuteUsage } from "../../../db/billing/reconciliation/minuteUsage.ts";
import { streamOfEvent } from "../../../db/billing/reconciliation/reportedStreams.ts";
import { lockStream, lockStreams } from "../../../db/billing/streams.ts";
import { minuteOf } from "../../../domain/billing/usage.ts";
import { DomainError, invalidRequest } from "../../../domain/errors.ts";

/** @throws DomainError record_not_found */
export const getMeterEvent = async (
  db: CommonQueryMethods,
  id: bigint,
): Promise<StoredMeterEvent> => {
  const event = await findMeterEvent(db, id);
  if (!event) {
    throw new DomainError(
      "record_not_found",
      `meter event ${id} not found; see \`impact usage list\``,
    );
  }
  return event;
};

/**
 * Locks the stream of a meter event until the transaction ends, and returns the event as it is then.
 * @throws DomainError record_not_found
 */
export const lockMeterEvent = async (
  transaction: DatabaseTransactionConnection,
  id: bigint,
): Promise<StoredMeterEvent> => {
  await lockStream(transaction, await getMeterEvent(transaction, id));
  return getMeterEvent(transaction, id);
};

/**
 * Locks the streams of meter events until the transaction ends, and checks that what was decided about them is still valid.
 * @param events of one customer, meter and minute, as they were when the decision was made
 * @param othersVersion the version of the other events of the minute then; null if the decision does not depend on them
 * @throws DomainError request_invalid if one of them has changed
 */
export const lockUnchangedEvents = async (
  transaction: DatabaseTransactionConnection,
  events: readonly [StoredMeterEvent, ...StoredMeterEvent[]],
  othersVersion: string | null,
): Promise<void> => {
  const [first] = events;
  // A customer may have belonged to several accounts.
  const accountIds = new Set(events.map(({ accountId }) => accountId));
  await lockStreams(transaction, first, accountIds);
  const isOtherChanged =
    othersVersion !== null &&
    (
      await readMinuteUsage(
        transaction,
        streamOfEvent(first),
        minuteOf(first.second),
        events.map(({ id }) => id),
      )
    ).version !== othersVersion;
  // All transactions lock rows in this order.
  for (const event of events.toSorted((a, b) => Number(a.id - b.id))) {
    // The row, because a comparison puts events in doubt without the locks of their streams.
    const current = await lockMeterEventRow(transaction, event.id);
    if (
      current?.state !== event.state ||
      current.attempts !== event.attempts ||
      current.outcomeUnknown !== event.outcomeUnknown ||
      // A retry of usage may have released some of its refunds.
      current.quantity !== event.quantity ||
      // A report of the processor may have made it a failed event again.
      current.settledAt?.getTime() !== event.settledAt?.getTime() ||
      current.settlementReference !== event.settlementReference ||
      isOtherChanged
    ) {
      throw invalidRequest(
        `meter event ${event.id}: it or another event of its minute changed in the meantime; try again`,
      );
    }
  }
};
