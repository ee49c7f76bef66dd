import { deleteOldReconciliations } from "../billing/reconciliation/reconciliations.sql.ts";
import { daysBefore } from "../../runtime/durations.rules.ts";
import { deleteBefore } from "../../db/batching/deleteInBatches.ts";
import { deletedBefore } from "../events/events.rules.ts";
import { deleteEventsBefore } from "../events/events.sql.ts";
import type { Context } from "../../runtime/context.ts";

const RECONCILIATION_DAYS = 400;

/** Deletes what is old, and returns the numbers of rows. What clients recorded stays. It may be interrupted and repeated. */
export const deleteOldData = async ({ db, clock }: Context, signal: AbortSignal) => {
  const now = clock.now();
  // First, because it is one statement, and the others can take long.
  const reconciliations = await deleteOldReconciliations(db, daysBefore(now, RECONCILIATION_DAYS));
  const before = deletedBefore(now);
  return {
    events: await deleteBefore(deleteEventsBefore, { db, before }, signal),
    reconciliations,
  };
};
