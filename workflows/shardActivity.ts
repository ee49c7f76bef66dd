import type { ActivityOptions } from "@temporalio/workflow";

/** The options of an activity that does the work of a shard for a minute. */
export const SHARD_ACTIVITY: ActivityOptions = {
  // The activity limits itself to a minute plus one call.
  startToCloseTimeout: "2 minutes",
  heartbeatTimeout: "10 seconds",
  // Follows an unavailable database or a lost worker.
  retry: { initialInterval: "3 seconds", backoffCoefficient: 1 },
};
