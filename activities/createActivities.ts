import { Context } from "@temporalio/activity";
import { ApplicationFailure, ApplicationFailureCategory } from "@temporalio/common";
import type { DatabasePool } from "slonik";
import type { Clock } from "../domain/clock.ts";
import type { UsageStream } from "../domain/billing/usage.ts";
import type { Planting } from "../providers/planting/createPlanting.ts";
import { clearExpiredResponses } from "../services/planting/clearCachedResponses.ts";
import { pollPlantingOrder, placePlantingOrder } from "../services/planting/pollPlantingOrder.ts";
import { createPlantingOrders } from "../services/planting/createPlantingOrders.ts";
import type { Billing } from "../providers/billing/createBilling.ts";
import type { ReportedStream } from "../db/billing/usageReports.ts";
import { drainUsage } from "../services/billing/drainUsage.ts";
import { isRefundSettled } from "../services/registrations/isRefundSettled.ts";
import type { StreamReport } from "../services/billing/reconcileUsage.ts";
import { listStreamsNeedingAttention, reconcileUsage } from "../services/billing/reconcileUsage.ts";
import type { SendResult } from "../services/billing/sendMeterEvent.ts";
import {
  recordPlantingOrdersStarted,
  findPlantingOrdersToStart,
} from "../services/planting/startPlantingOrders.ts";
import { endHopelessRetries } from "./endHopelessRetries.ts";

const HEARTBEAT_MS = 3000;

/** A workflow's result must stay small. */
const REPORTED_STREAMS = 100;

/** Lets the server notice a worker that died, also while a single call is slow. */
const withHeartbeat = async <Result>(work: () => Promise<Result>): Promise<Result> => {
  const context = Context.current();
  const timer = setInterval(() => context.heartbeat(), HEARTBEAT_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
};

export type ActivityDependencies = {
  readonly db: DatabasePool;
  readonly clock: Clock;
  readonly billing: Billing;
  readonly planting: Planting;
  /** The interval between two polls of an order if the partner names none. */
  readonly plantingPollMs: number;
  /** Time without a poll after which an order's workflow counts as lost. */
  readonly plantingOrderLostMs: number;
  /** Told of every attempt to send a meter event. */
  readonly observeSend: (stream: UsageStream, result: SendResult) => void;
  /** Told after every reconciliation of the streams whose usage at the processor is not ours. */
  readonly observeDrift: (streams: readonly StreamReport[]) => void;
};

/** The activities of all workflows. Each may be repeated at any point: what it did stands in the database. */
export const createActivities = (deps: ActivityDependencies) => ({
  /** Sends what a stream has ready; fails, to be retried later, when its current event has to wait. */
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
        // Waiting is no fault of the worker's; misconfiguration is for a person to mend.
        ...(result.cause === "misconfigured"
          ? {}
          : { category: ApplicationFailureCategory.BENIGN }),
        ...(result.afterMs === null ? {} : { nextRetryDelay: result.afterMs }),
      });
    }
    return { moreIsReady: result.kind === "more" };
  },

  /** Fails, to be retried later, until all that the registration's refunds take back is settled. */
  confirmRefund: async (registrationId: string): Promise<void> => {
    if (!(await isRefundSettled(deps, registrationId))) {
      throw ApplicationFailure.create({
        message: "the refunded usage is not settled yet",
        type: "refund_unsettled",
        category: ApplicationFailureCategory.BENIGN,
      });
    }
  },

  /**
   * Compares the processor's usage with ours. Drift is announced only where it is final: the processor's own sums lag.
   * @param among the streams that the polls before found drifting, null at the first poll: only they can still count
   */
  reconcileUsage: async ({
    isFinal,
    among = null,
  }: {
    readonly isFinal: boolean;
    readonly among?: readonly ReportedStream[] | null;
  }): Promise<{ readonly streams: number; readonly drifting: readonly StreamReport[] }> => {
    const report = await withHeartbeat(() =>
      reconcileUsage(deps, {}, Context.current().cancellationSignal),
    );
    // A list that was cut says nothing of the streams that are not in it.
    const named = among !== null && among.length < REPORTED_STREAMS ? among : null;
    const drifting = listStreamsNeedingAttention(report.streams, named);
    if (isFinal || drifting.length === 0) {
      deps.observeDrift(drifting);
    }
    return { streams: report.streams.length, drifting: drifting.slice(0, REPORTED_STREAMS) };
  },

  /** Creates planting orders of the trees that have none, and deletes expired cached responses. */
  createPlantingOrders: async (): Promise<{ readonly orders: number }> => {
    await clearExpiredResponses(deps);
    const orders = await withHeartbeat(() =>
      createPlantingOrders(deps, Context.current().cancellationSignal),
    );
    return { orders };
  },

  /** Includes orders whose workflow seems lost. */
  listOrdersToStart: (): Promise<readonly number[]> => findPlantingOrdersToStart(deps),

  markOrdersStarted: (orderIds: readonly number[]): Promise<void> =>
    recordPlantingOrdersStarted(deps, orderIds),

  placePlantingOrder: (orderId: number): Promise<void> =>
    endHopelessRetries(() =>
      placePlantingOrder(deps, orderId, Context.current().cancellationSignal),
    ),

  /** Polls the partner for updates of an order and returns when to poll again. */
  pollPlantingOrder: async (
    orderId: number,
  ): Promise<{ readonly isFinished: boolean; readonly nextPollMs: number }> => {
    const { isFinished, nextPollMs } = await endHopelessRetries(() =>
      pollPlantingOrder(deps, orderId, Context.current().cancellationSignal),
    );
    return { isFinished, nextPollMs: Math.max(nextPollMs ?? deps.plantingPollMs, 100) };
  },
});

export type Activities = ReturnType<typeof createActivities>;
