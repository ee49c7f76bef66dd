import { WorkflowExecutionAlreadyStartedError } from "@temporalio/client";
import { readDeployment } from "../../../modules/billing/deployment.sql.ts";
import { DAY_MS } from "../../../runtime/durations.rules.ts";
import { subscriptionSweep, subscriptionSweepId } from "../../../workflows/subscriptionSweep.ts";
import { backgroundQueue } from "../../../runtime/temporalNames.rules.ts";
import { callTemporal } from "../../callTemporal.ts";
import type { Pass, DispatchContext } from "../../createWaker.ts";

/** The schedule has swept all subscriptions since a release that is older than this. */
const SWEEP_INTERVAL_MS = DAY_MS;

/**
 * Has all subscriptions read again when a hold begins, and when it ends: both may happen while no worker runs. The hold
 * may follow a restore, which has lost what Stripe announced since the restored time. The workflow's id makes it one sweep
 * each time, also for the next leaders.
 */
export const createStartSweepOfHold = ({
  db,
  clock,
  temporal,
  deployment,
}: DispatchContext): Pass => {
  let sweptFor: string | null = null;
  return async () => {
    const { hold, releasedAt } = await readDeployment(db);
    const isReleaseRecent =
      releasedAt !== null && clock.now().getTime() - releasedAt.getTime() < SWEEP_INTERVAL_MS;
    const changedAt = hold?.at ?? (isReleaseRecent ? releasedAt : null);
    const time = changedAt?.toISOString() ?? null;
    if (time === null || time === sweptFor) {
      return;
    }
    try {
      await callTemporal(temporal, () =>
        temporal.workflow.start(subscriptionSweep, {
          workflowId: `${subscriptionSweepId(deployment)}-${time}`,
          workflowIdReusePolicy: "REJECT_DUPLICATE",
          taskQueue: backgroundQueue(deployment),
          args: [],
        }),
      );
    } catch (error) {
      if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
        throw error;
      }
    }
    sweptFor = time;
  };
};
