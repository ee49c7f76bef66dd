import { ApplicationFailure, ApplicationFailureCategory } from "@temporalio/common";
import type { StreamReport } from "../modules/billing/reconciliation/reconcileUsage.ts";
import { reconcileUsage } from "../modules/billing/reconciliation/reconcileUsage.ts";
import { requestSubscriptionReads } from "../modules/billing/processorEvents/processorEvents.sql.ts";
import { compareInvoices } from "../modules/billing/invoices/compareInvoices.ts";
import { creditTopUps } from "../modules/stores/creditTopUps.ts";
import { readRefundState } from "../modules/billing/registrationFacts.sql.ts";
import type { BillingContext } from "../modules/billing/context.ts";
import { HOUR_MS } from "../runtime/durations.rules.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

export type BillingObservers = {
  /** Called for each customer whose invoices could not be read. */
  readonly observeUnreadInvoices: (customerId: string, error: unknown) => void;
  /** Called after a reconciliation with the streams that differ or could not be read. */
  readonly observeDrift: (streams: readonly StreamReport[]) => void;
};

/** The activities of billing. Each is idempotent: its progress is stored in the database. */
export const createBillingActivities = (context: BillingContext & BillingObservers) => ({
  /** Fails, so that Temporal retries, until all refunds of the registration are settled, by an operator if one has failed. */
  confirmRefund: async (registrationId: string): Promise<void> => {
    const state = await readRefundState(context.db, registrationId);
    if (state !== "settled") {
      throw ApplicationFailure.create({
        message:
          state === "failed"
            ? `the refunded usage has failed; see: impact usage explain ${registrationId}`
            : "the refunded usage is not settled yet",
        type: "refund_unsettled",
        category: ApplicationFailureCategory.BENIGN,
      });
    }
  },

  /** Fails, so that Temporal retries, if some of the processor's sums could not be read and may be later. */
  reconcileUsage: async (): Promise<{ readonly compared: number; readonly drifting: number }> => {
    await requestSubscriptionReads(context.db, context.clock.now(), HOUR_MS);
    const { streams, drifting, failure } = await withHeartbeat((signal) =>
      reconcileUsage(context, {}, signal),
    );
    context.observeDrift(drifting);
    if (failure !== null) {
      throw ApplicationFailure.retryable(failure);
    }
    return { compared: streams.length, drifting: drifting.length };
  },

  /** Compares the invoices of the customers that were not compared since a time, in milliseconds of the Unix epoch. */
  compareInvoices: (readBeforeMs: number) =>
    withHeartbeat((signal) =>
      compareInvoices(context, {
        readBefore: new Date(readBeforeMs),
        signal,
        onFailure: context.observeUnreadInvoices,
      }),
    ),

  /** Credits stores' payments of the last days that are missing in their balances. */
  creditTopUps: () => withHeartbeat((signal) => creditTopUps(context, signal)),
});

export type BillingActivities = ReturnType<typeof createBillingActivities>;
