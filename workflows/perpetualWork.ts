import { makeContinueAsNewFunc, proxyActivities } from "@temporalio/workflow";
import type { PerpetualActivities } from "../activities/createPerpetualActivities.ts";
import { PERPETUAL_RUN_TIMEOUT } from "../runtime/perpetualWork.rules.ts";
import type { PerpetualKind } from "../runtime/perpetualWork.rules.ts";

const { workForAMinute } = proxyActivities<PerpetualActivities>({
  // The activity limits itself to a minute plus one call.
  startToCloseTimeout: "2 minutes",
  heartbeatTimeout: "10 seconds",
  // Follows an unavailable database or a lost worker.
  retry: { initialInterval: "3 seconds", backoffCoefficient: 1 },
});

/** Less than the time limit, so that a run may lose a worker or two. */
const MINUTES_OF_A_RUN = 7;

/**
 * Does work of a kind, minute after minute. It never completes: Temporal gives each minute to a worker, and to another one if
 * that worker is lost.
 */
export const perpetualWork = async (kind: PerpetualKind): Promise<void> => {
  for (let minute = 0; minute < MINUTES_OF_A_RUN; minute += 1) {
    await workForAMinute(kind);
  }
  await makeContinueAsNewFunc<typeof perpetualWork>({ workflowRunTimeout: PERPETUAL_RUN_TIMEOUT })(
    kind,
  );
};
