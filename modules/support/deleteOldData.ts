import { deleteBefore } from "../../db/batching/deleteInBatches.ts";
import { deletedBefore } from "../events/events.rules.ts";
import { deleteEventsBefore } from "../events/events.sql.ts";
import type { Context } from "../../runtime/context.ts";

/** Deletes what is old, and returns the numbers of rows. What clients recorded stays. It may be interrupted and repeated. */
export const deleteOldData = async ({ db, clock }: Context, signal: AbortSignal) => {
  const before = deletedBefore(clock.now());
  return { events: await deleteBefore(deleteEventsBefore, { db, before }, signal) };
};
