import type { Duration } from "@temporalio/common";
import {
  ActivityFailure,
  proxyActivities,
  rootCause,
  sleep,
  workflowInfo,
} from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

const { reconcileUsage } = proxyActivities<BillingActivities>({
  // It takes minutes, and many times as long while it yields to clients.
  startToCloseTimeout: "6 hours",
  heartbeatTimeout: "2 minutes",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

const { compareInvoices } = proxyActivities<BillingActivities>({
  startToCloseTimeout: "6 hours",
  heartbeatTimeout: "2 minutes",
  // An outage of Stripe may take some hours. A repeated attempt continues where the last one ended.
  retry: {
    initialInterval: "1 minute",
    backoffCoefficient: 2,
    maximumInterval: "1 hour",
    maximumAttempts: 10,
  },
});

const { recordReconciliationFailure } = proxyActivities<BillingActivities>({
  startToCloseTimeout: "1 minute",
  // A database that is down may be the failure. The next night's reconciliation starts afterwards.
  scheduleToCloseTimeout: "20 hours",
});

const POLLS = 3;

type Poll = Awaited<ReturnType<typeof reconcileUsage>>;

const poll = async (id: string, pollInterval: Duration): Promise<Poll> => {
  for (let made = 1; ; made += 1) {
    const isFinal = made === POLLS;
    const result = await reconcileUsage({ id, isFinal });
    if (isFinal || result.drifting === 0) {
      return result;
    }
    await sleep(pollInterval);
  }
};

/**
 * Compares the processor's usage with ours, and then its invoices. A stream is reported only if it drifts in each of three
 * polls.
 */
export const reconciliation = async (pollInterval: Duration = "5 minutes"): Promise<Poll> => {
  const { runId: id, startTime } = workflowInfo();
  try {
    const result = await poll(id, pollInterval);
    await compareInvoices(startTime.getTime());
    return result;
  } catch (error) {
    if (error instanceof ActivityFailure) {
      await recordReconciliationFailure({ id, error: rootCause(error) ?? error.message });
    }
    throw error;
  }
};
