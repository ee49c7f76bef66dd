import { deleteEventDays, findEventBoundary, insertEventDay } from "./eventDays.sql.ts";
import { deleteEventsBefore } from "./events.sql.ts";
import { deleteInOrder } from "../../db/batching/deleteInBatches.ts";
import type { Context } from "../../runtime/context.ts";
import { keptSince } from "./events.rules.ts";

/**
 * Records where today's events begin, and deletes those that are old enough. It may be interrupted and repeated.
 * @returns the number of deleted events
 */
export const deleteOldEvents = async (
  { db, clock }: Context,
  signal: AbortSignal,
): Promise<number> => {
  const now = clock.now();
  await insertEventDay(db, now);
  const time = keptSince(now);
  const transactionId = await findEventBoundary(db, time);
  const total = await deleteInOrder<Date>(
    (limit, from) => deleteEventsBefore(db, { from, time, transactionId }, limit),
    signal,
  );
  await deleteEventDays(db, time);
  return total;
};
