import { deletedBefore } from "../events/events.rules.ts";
import { deleteEvents } from "../events/events.sql.ts";
import type { Context } from "../../runtime/context.ts";

/** Deletes what is old, and returns the numbers of rows. What clients recorded stays. It may be interrupted and repeated. */
export const deleteOldData = async ({ db, clock }: Context, signal: AbortSignal) => {
  const before = deletedBefore(clock.now());
  let events = 0;
  let batch: Awaited<ReturnType<typeof deleteEvents>> = { deleted: 0, last: null };
  do {
    signal.throwIfAborted();
    batch = await deleteEvents(db, before, batch.last);
    events += batch.deleted;
  } while (batch.deleted > 0);
  return { events };
};
