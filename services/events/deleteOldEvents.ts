import type { DatabasePool } from "slonik";
import { deleteEventDays, findEventBoundary, insertEventDay } from "../../db/events/eventDays.ts";
import { deleteEventsBefore } from "../../db/events/events.ts";
import type { Clock } from "../../domain/clock.ts";
import { keptSince } from "./readFeed.ts";

/** Short statements, so that neither locks nor replication wait for one of them. */
const BATCH_SIZE = 1000;

/**
 * Records where today's events begin, and deletes those that are old enough. It may be interrupted and repeated.
 * @returns the number of deleted events
 */
export const deleteOldEvents = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  signal: AbortSignal,
): Promise<number> => {
  const now = clock.now();
  await insertEventDay(db, now);
  const time = keptSince(now);
  const transactionId = await findEventBoundary(db, time);
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const deleted = await deleteEventsBefore(db, { time, transactionId }, BATCH_SIZE);
    if (deleted === 0) {
      break;
    }
    total += deleted;
  }
  await deleteEventDays(db, time);
  return total;
};
