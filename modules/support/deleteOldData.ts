import { deleteOldReconciliations } from "../billing/reconciliation/reconciliations.sql.ts";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { deletedBefore } from "../events/events.rules.ts";
import { deleteEvents } from "../events/events.sql.ts";
import type { Context } from "../../runtime/context.ts";

/** The results of a year stay. */
const RECONCILIATION_DAYS = 400;

/** Deletes what is old, and returns the numbers of rows. What clients recorded stays. It may be interrupted and repeated. */
export const deleteOldData = async ({ db, clock }: Context, signal: AbortSignal) => {
  const now = clock.now();
  // First, because it is one statement, and the others can take long.
  const reconciliations = await deleteOldReconciliations(db, daysBefore(now, RECONCILIATION_DAYS));
  let events = 0;
  let batch: Awaited<ReturnType<typeof deleteEvents>> = { deleted: 0, last: null };
  do {
    signal.throwIfAborted();
    batch = await deleteEvents(db, deletedBefore(now), batch.last);
    events += batch.deleted;
  } while (batch.deleted > 0);
  return { events, reconciliations };
};
