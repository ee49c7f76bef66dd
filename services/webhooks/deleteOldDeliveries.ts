import { deleteDeliveriesBefore } from "../../db/webhooks/deliveries.ts";
import type { DeliveryPlace } from "../../db/webhooks/deliveries.ts";
import { deleteEndpointsBefore } from "../../db/webhooks/endpoints.ts";
import { DAY_MS } from "../../domain/durations.ts";
import { deleteInOrder } from "../batching/deleteInBatches.ts";
import { keptSince } from "../events/readFeed.ts";
import type { Context } from "../context.ts";

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
