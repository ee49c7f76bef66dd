import type { DatabasePool } from "slonik";
import { deleteProcessedEvents } from "../../db/billing/processorEvents/processorEvents.ts";
import { deleteOldTraceContexts } from "../../db/billing/sending/traceContexts.ts";
import { deleteOldReconciliations } from "../../db/billing/reconciliation/reconciliations.ts";
import type { Clock } from "../../domain/clock.ts";
import { deleteInBatches } from "../deleteInBatches.ts";

const DAY_MS = 24 * 60 * 60 * 1000;

/** Usage that is reported later has a trace of its own. */
const TRACE_CONTEXT_DAYS = 1;

/** How long the records of billing are kept that nothing depends on. */
export type Retention = {
  readonly processorEventDays: number;
  readonly reconciliationDays: number;
};

/**
 * Deletes processed events of the processor and results of reconciliations that are older than their retention, and what
 * continues old traces. Events that are pending or failed stay. It may be interrupted and repeated.
 * @returns the numbers of deleted rows
 */
export const deleteOldRecords = async (
  {
    db,
    clock,
    retention,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly retention: Retention },
  signal: AbortSignal,
): Promise<{
  readonly processorEvents: number;
  readonly reconciliations: number;
  readonly traceContexts: number;
}> => {
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
    traceContexts: await deleteInBatches(
      (limit) => deleteOldTraceContexts(db, before(TRACE_CONTEXT_DAYS), limit),
      signal,
    ),
  };
};
