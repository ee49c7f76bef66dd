import { proxyActivities } from "@temporalio/workflow";
import type { RetentionActivities } from "../activities/createRetentionActivities.ts";

const { deleteOldData } = proxyActivities<RetentionActivities>({
  startToCloseTimeout: "8 hours",
  heartbeatTimeout: "30 seconds",
  retry: { initialInterval: "1 minute", backoffCoefficient: 2, maximumAttempts: 5 },
});

/** Deletes what is old enough. A repeated attempt continues where the last one ended. */
export const retention = (): Promise<Awaited<ReturnType<typeof deleteOldData>>> => deleteOldData();
