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

const ATTEMPTS = 3;

type Reconciled = Awaited<ReturnType<typeof reconcileUsage>>;

/**
 * Compares the processor's usage with ours, and then its invoices. If sums could not be read, all are compared again, a few
 * times.
 */
export const reconciliation = async (
  retryInterval: Duration = "5 minutes",
): Promise<Reconciled> => {
  try {
    let result = await reconcileUsage();
    for (let attempts = 1; result.hasFailed && attempts < ATTEMPTS; attempts += 1) {
      await sleep(retryInterval);
      result = await reconcileUsage();
    }
    await compareInvoices(workflowInfo().startTime.getTime());
    return result;
  } catch (error) {
    if (error instanceof ActivityFailure) {
      await recordReconciliationFailure(rootCause(error) ?? error.message);
    }
    throw error;
  }
};
