import { proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";
import type { RetentionActivities } from "../activities/createRetentionActivities.ts";
import { inDeployment } from "./inDeployment.ts";

export const subscriptionSweepId = (deployment: string): string =>
  inDeployment(deployment, "subscription-sweep");

const { sweepSubscriptions } = proxyActivities<BillingActivities>({
  startToCloseTimeout: "6 hours",
  heartbeatTimeout: "30 seconds",
  // An outage of Stripe may take some hours.
  retry: {
    initialInterval: "1 minute",
    backoffCoefficient: 2,
    maximumInterval: "1 hour",
    maximumAttempts: 10,
  },
});

const { deleteOldRecords } = proxyActivities<RetentionActivities>({
  startToCloseTimeout: "1 hour",
  heartbeatTimeout: "30 seconds",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

/**
 * Reads every organization's subscription at Stripe, and deletes old records: of billing, events, deliveries and test data.
 * Neither waits for the other or depends on its success. A repeated attempt of either continues where the last one ended.
 */
export const subscriptionSweep = async (): Promise<{
  readonly swept: Awaited<ReturnType<typeof sweepSubscriptions>>;
  readonly deleted: Awaited<ReturnType<typeof deleteOldRecords>>;
}> => {
  const swept = sweepSubscriptions(workflowInfo().startTime.getTime());
  const deleted = deleteOldRecords();
  await Promise.allSettled([swept, deleted]);
  return { swept: await swept, deleted: await deleted };
};
