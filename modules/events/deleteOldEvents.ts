import { deleteEventsBefore } from "./events.sql.ts";
import { deleteInOrder } from "../../db/batching/deleteInBatches.ts";
import type { Context } from "../../runtime/context.ts";
import { deletedBefore } from "./events.rules.ts";

/**
 * Deletes events that are old enough, with their deliveries. It may be interrupted and repeated.
 * @returns the number of deleted events
 */
export const deleteOldEvents = ({ db, clock }: Context, signal: AbortSignal): Promise<number> => {
  const time = deletedBefore(clock.now());
  return deleteInOrder<Date>(
    (limit, from) => deleteEventsBefore(db, { from, time }, limit),
    signal,
  );
};
