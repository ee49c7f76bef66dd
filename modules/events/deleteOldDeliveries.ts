import { deleteDeliveriesBefore } from "./deliveries.sql.ts";
import type { DeliveryPlace } from "./deliveries.sql.ts";
import { deleteEndpointsBefore } from "./endpoints.sql.ts";
import { DAY_MS } from "../../runtime/durations.rules.ts";
import { deleteInOrder } from "../../db/batching/deleteInBatches.ts";
import { keptSince } from "./events.rules.ts";
import type { Context } from "../../runtime/context.ts";

/** Longer than any transaction that records an event for the endpoint. */
const DELETED_ENDPOINT_MS = DAY_MS;

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
  const deletedBefore = new Date(now.getTime() - DELETED_ENDPOINT_MS);
  await deleteInOrder<Date>(
    (limit, from) => deleteEndpointsBefore(db, { from, time: deletedBefore }, limit),
    signal,
  );
  return deleted;
};
