import {
  deleteEventDays,
  findEventBoundary,
  insertEventDay,
  deleteEventsBefore,
} from "./events.sql.ts";
import { deleteInOrder } from "../../db/batching/deleteInBatches.ts";
import type { Context } from "../../runtime/context.ts";
import { keptSince } from "./events.rules.ts";
import { deleteDeliveriesBefore } from "./deliveries.sql.ts";
import type { DeliveryPlace } from "./deliveries.sql.ts";
import { deleteEndpointsBefore } from "./endpoints.sql.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";

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

/**
 * Deletes deliveries that are as old as the feed's oldest event, and what is left of deleted endpoints. It may be
 * interrupted and repeated.
 * @returns the number of deleted deliveries
 */
export const deleteOldDeliveries = async (
  { db, clock }: Context,
  signal: AbortSignal,
): Promise<number> => {
  const now = clock.now();
  const time = keptSince(now);
  const deleted = await deleteInOrder<DeliveryPlace>(
    (limit, from) =>
      db.transaction((transaction) => deleteDeliveriesBefore(transaction, { from, time }, limit)),
    signal,
  );
  // A day is longer than any transaction that records an event for an endpoint.
  const deletedBefore = new Date(now.getTime() - DAY_MS);
  await deleteInOrder<Date>(
    (limit, from) => deleteEndpointsBefore(db, { from, time: deletedBefore }, limit),
    signal,
  );
  return deleted;
};
