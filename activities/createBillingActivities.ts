import { Context } from "@temporalio/activity";
import { ApplicationFailure, ApplicationFailureCategory } from "@temporalio/common";
import type { ReportedStream } from "../db/billing/meterEventReports.ts";
import type { UsageStream } from "../domain/billing/usage.ts";
import { drainUsage } from "../services/billing/drainUsage.ts";
import { processProcessorEvents } from "../services/billing/processProcessorEvents.ts";
import type { ProcessorEventDependencies } from "../services/billing/processProcessorEvents.ts";
import { listStreamsNeedingAttention, reconcileUsage } from "../services/billing/reconcileUsage.ts";
import type { StreamReport } from "../services/billing/reconcileUsage.ts";
import type { SendResult } from "../domain/billing/decideNextStep.ts";
import { isRefundSettled } from "../services/registrations/isRefundSettled.ts";
import { withHeartbeat } from "./withHeartbeat.ts";

/** Keeps the result of a workflow small. */
const MAX_REPORTED_STREAMS = 100;

export type BillingActivityDependencies = ProcessorEventDependencies & {
  /** Called after every attempt to send a meter event. */
  readonly observeSend: (stream: UsageStream, result: SendResult) => void;
  /** Called after every reconciliation with the streams that differ at the processor. */
  readonly observeDrift: (streams: readonly StreamReport[]) => void;
};

/** The activities of billing. Each is idempotent: its progress is stored in the database. */
export const createBillingActivities = (deps: BillingActivityDependencies) => ({
  /** Sends the usage of a stream that is ready. Fails, so that Temporal retries, if the current event has to wait. */
  drainUsage: async (stream: UsageStream): Promise<{ readonly moreIsReady: boolean }> => {
    const signal = Context.current().cancellationSignal;
    const result = await withHeartbeat(() =>
      drainUsage(deps, stream, {
        signal,
        onResult: (sent) => deps.observeSend(stream, sent),
      }),
    );
    if (result.kind === "delayed") {
      throw ApplicationFailure.create({
        message: result.reason,
        type: `usage_${result.cause}`,
        // A delay is expected and not worth an alert; a misconfiguration needs an operator.
        ...(result.cause === "misconfigured"
          ? {}
          : { category: ApplicationFailureCategory.BENIGN }),
        // Temporal counts the attempts of the activity, which may have sent other events meanwhile.
        nextRetryDelay: result.afterMs,
      });
    }
    return { moreIsReady: result.kind === "more" };
  },

  /** Fails, so that Temporal retries, until all refunds of the registration are settled. */
  confirmRefund: async (registrationId: string): Promise<void> => {
    if (!(await isRefundSettled(deps, registrationId))) {
      throw ApplicationFailure.create({
        message: "the refunded usage is not settled yet",
        type: "refund_unsettled",
        category: ApplicationFailureCategory.BENIGN,
      });
    }
  },

  /** Processes the due events of the processor once; those that fail become due again. */
  processProcessorEvents: (): Promise<void> =>
    withHeartbeat(() => processProcessorEvents(deps, Context.current().cancellationSignal)),

  /**
   * Compares the processor's usage with what was delivered to it. Drift is reported to `observeDrift` only by the final
   * poll, because the processor's sums lag.
   * @param candidates the streams that drifted in every earlier poll; null in the first poll
   */
  reconcileUsage: async ({
    isFinal,
    candidates = null,
  }: {
    readonly isFinal: boolean;
    readonly candidates?: readonly ReportedStream[] | null;
  }): Promise<{ readonly streams: number; readonly drifting: readonly StreamReport[] }> => {
    const report = await withHeartbeat(() =>
      reconcileUsage(deps, {}, Context.current().cancellationSignal),
    );
    // A list at the maximum may have been cut off, so it excludes nothing.
    const isComplete = candidates !== null && candidates.length < MAX_REPORTED_STREAMS;
    const drifting = listStreamsNeedingAttention(report.streams, isComplete ? candidates : null);
    if (isFinal || drifting.length === 0) {
      deps.observeDrift(drifting);
    }
    return { streams: report.streams.length, drifting: drifting.slice(0, MAX_REPORTED_STREAMS) };
  },
});

export type BillingActivities = ReturnType<typeof createBillingActivities>;
