import { proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

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

/** Reads every organization's subscription at Stripe. A repeated attempt continues where the last one ended. */
export const subscriptionSweep = (): Promise<Awaited<ReturnType<typeof sweepSubscriptions>>> =>
  sweepSubscriptions(workflowInfo().startTime.getTime());
