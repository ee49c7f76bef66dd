import type { Duration } from "@temporalio/common";
import { proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

const { compareInvoices, creditTopUps } = proxyActivities<BillingActivities>({
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

/** Compares the processor's usage with ours, again if sums could not be read, then its invoices, and then stores' payments. */
export const reconciliation = async (
  retryInterval: Duration = "1 minute",
): Promise<{ readonly compared: number; readonly drifting: number }> => {
  const { reconcileUsage } = proxyActivities<BillingActivities>({
    // It takes minutes, and many times as long while it yields to clients.
    startToCloseTimeout: "6 hours",
    heartbeatTimeout: "2 minutes",
    retry: { initialInterval: retryInterval, backoffCoefficient: 2, maximumAttempts: 5 },
  });
  const compared = await reconcileUsage();
  await compareInvoices(workflowInfo().startTime.getTime());
  await creditTopUps();
  return compared;
};
