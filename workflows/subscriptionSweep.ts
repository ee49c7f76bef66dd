import { proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

export const SUBSCRIPTION_SWEEP_ID = "subscription-sweep";

const { sweepSubscriptions } = proxyActivities<BillingActivities>({
  startToCloseTimeout: "6 hours",
  heartbeatTimeout: "30 seconds",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

/** Reads every organization's subscription at Stripe. A repeated attempt continues with those that are missing. */
export const subscriptionSweep = (): ReturnType<typeof sweepSubscriptions> =>
  sweepSubscriptions(workflowInfo().startTime.getTime());
