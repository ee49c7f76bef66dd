import { continueAsNew, proxyActivities, workflowInfo } from "@temporalio/workflow";
import type { PerpetualActivities } from "../activities/createPerpetualActivities.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";

const { workForAMinute } = proxyActivities<PerpetualActivities>({
  // The activity limits itself to a minute plus one call.
  startToCloseTimeout: "2 minutes",
  heartbeatTimeout: "10 seconds",
  // Follows an unavailable database or a lost worker.
  retry: { initialInterval: "3 seconds", backoffCoefficient: 1 },
});

/**
 * Does work of a kind, minute after minute. It never completes: Temporal gives each minute to a worker, and to another one if
 * that worker is lost.
 */
export const perpetualWork = async (kind: PerpetualKind): Promise<void> => {
  while (!workflowInfo().continueAsNewSuggested) {
    await workForAMinute(kind);
  }
  await continueAsNew<typeof perpetualWork>(kind);
};
