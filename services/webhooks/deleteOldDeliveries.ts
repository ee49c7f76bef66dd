import type { DatabasePool } from "slonik";
import { deleteDeliveriesBefore } from "../../db/webhooks/deliveries.ts";
import { deleteEndpointsBefore } from "../../db/webhooks/endpoints.ts";
import type { Clock } from "../../domain/clock.ts";
import { keptSince } from "../events/readFeed.ts";

/** Short statements, so that neither locks nor replication wait for one of them. */
const BATCH_SIZE = 1000;

/** Longer than any transaction that records an event for the endpoint. */
const DELETED_ENDPOINT_MS = 24 * 60 * 60 * 1000;

/**
 * Deletes deliveries that are as old as the feed's oldest event, and what is left of deleted endpoints. It may be
 * interrupted and repeated.
 * @returns the number of deleted deliveries
 */
export const deleteOldDeliveries = async (
  { db, clock }: { readonly db: DatabasePool; readonly clock: Clock },
  signal: AbortSignal,
): Promise<number> => {
  const now = clock.now();
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const deleted = await deleteDeliveriesBefore(db, keptSince(now), BATCH_SIZE);
    if (deleted === 0) {
      break;
    }
    total += deleted;
  }
  await deleteEndpointsBefore(db, new Date(now.getTime() - DELETED_ENDPOINT_MS));
  return total;
};
