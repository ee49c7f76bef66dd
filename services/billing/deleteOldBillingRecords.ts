import type { DatabasePool } from "slonik";
import { deleteProcessedEvents } from "../../db/billing/processorEvents/processorEvents.ts";
import { deleteOldTraceContexts } from "../../db/billing/sending/traceContexts.ts";
import { deleteOldReconciliations } from "../../db/billing/reconciliation/reconciliations.ts";
import type { Clock } from "../../domain/clock.ts";
import { daysBefore } from "../../domain/durations.ts";
import { deleteInBatches, deleteInOrder } from "../deleteInBatches.ts";

/** Usage that is reported later has a trace of its own. */
const TRACE_CONTEXT_DAYS = 1;

/** How long the records of billing are kept that nothing depends on. */
export type BillingRetention = {
  readonly processorEventDays: number;
  readonly reconciliationDays: number;
};

type Deletion = (db: DatabasePool, before: Date, signal: AbortSignal) => Promise<number>;

const DELETIONS = {
  processorEvents: (db, before, signal) =>
    deleteInOrder<Date>(
      (limit, from) => deleteProcessedEvents(db, { from, before }, limit),
      signal,
    ),
  reconciliations: (db, before, signal) =>
    deleteInBatches((limit) => deleteOldReconciliations(db, before, limit), signal),
  traceContexts: (db, before, signal) =>
    deleteInOrder<Date>(
      (limit, from) => deleteOldTraceContexts(db, { from, before }, limit),
      signal,
    ),
} as const satisfies Readonly<Record<string, Deletion>>;

/**
 * Deletes processed events of the processor or results of reconciliations that are older than their retention, or what
 * continues old traces. Events that are pending or failed stay, and so do reconciliations with drift. It may be interrupted
 * and repeated.
 * @returns the number of deleted rows
 */
export const deleteOldBillingRecords = (
  {
    db,
    clock,
    retention,
  }: { readonly db: DatabasePool; readonly clock: Clock; readonly retention: BillingRetention },
  records: keyof typeof DELETIONS,
  signal: AbortSignal,
): Promise<number> => {
  const days = {
    processorEvents: retention.processorEventDays,
    reconciliations: retention.reconciliationDays,
    traceContexts: TRACE_CONTEXT_DAYS,
  }[records];
  const before = daysBefore(clock.now(), days);
  return DELETIONS[records](db, before, signal);
};
