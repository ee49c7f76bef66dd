import type { DatabasePool } from "slonik";
import { deleteProcessedEvents } from "../../db/billing/processorEvents.ts";
import { deleteOldReconciliations } from "../../db/billing/reconciliations.ts";
import type { Clock } from "../../domain/clock.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Short statements, so that neither locks nor replication wait for one of them. */
const BATCH_SIZE = 1000;

/** How long the records of billing are kept that nothing depends on. */
export type Retention = {
  readonly processorEventDays: number;
  readonly reconciliationDays: number;
};

/** Repeats a deletion until nothing is left, and returns the number of deleted rows. */
const deleteInBatches = async (
  deleteBatch: (limit: number) => Promise<number>,
  signal: AbortSignal,
): Promise<number> => {
  let total = 0;
  for (;;) {
    signal.throwIfAborted();
    const deleted = await deleteBatch(BATCH_SIZE);
    if (deleted === 0) {
      return total;
    }
    total += deleted;
  }
};

/**
 * Deletes processed events of the processor and results of reconciliations that are older than their retention. Events
 * that are pending or failed stay. It may be interrupted and repeated.
 * @returns the numbers of deleted events and of deleted rows of results
 */
export const deleteOldRecords = async (
  {
    db,
    clock,
    retention,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly retention: Retention },
  signal: AbortSignal,
): Promise<{ readonly processorEvents: number; readonly reconciliations: number }> => {
  const before = (days: number): Date => new Date(clock.now().getTime() - days * DAY_MS);
  return {
    processorEvents: await deleteInBatches(
      (limit) => deleteProcessedEvents(db, before(retention.processorEventDays), limit),
      signal,
    ),
    reconciliations: await deleteInBatches(
      (limit) => deleteOldReconciliations(db, before(retention.reconciliationDays), limit),
      signal,
    ),
  };
};
