import type { Duration } from "@temporalio/common";
import {
  condition,
  continueAsNew,
  defineSignal,
  proxyActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { Owner } from "../modules/records/owner.rules.ts";
import type { BillingActivities } from "../activities/createBillingActivities.ts";
import { isTimeout } from "./isTimeout.ts";

/** Signals that usage facts are waiting. It has no payload: the sender reads them from the database. */
export const wakeSignal = defineSignal("wake");

const IDLE_TIME = "2 minutes";

/**
 * Reports a stream's usage until none is left, waits for more, and completes after two idle minutes. The dispatcher
 * starts it again.
 * @param maxDrainTime how long one run retries before it continues as new. Every wake is a signal in the history of the
 *   run, and Temporal accepts ten thousand signals per run
 */
export const usageSender = async (
  stream: Owner,
  maxDrainTime: Duration = "6 hours",
): Promise<void> => {
  const { drainUsage } = proxyActivities<BillingActivities>({
    // The activity limits itself to 20 seconds plus one call.
    startToCloseTimeout: "2 minutes",
    scheduleToCloseTimeout: maxDrainTime,
    heartbeatTimeout: "10 seconds",
    // The activity returns the delay of an event that must wait. This one follows an unavailable database or a lost worker.
    retry: { initialInterval: "3 seconds", backoffCoefficient: 1 },
  });
  const restart = () => continueAsNew<typeof usageSender>(stream, maxDrainTime);
  let workIsWaiting = true;
  setHandler(wakeSignal, () => {
    workIsWaiting = true;
  });
  while (workIsWaiting) {
    workIsWaiting = false;
    const { moreIsReady } = await drainUsage(stream).catch((error: unknown) =>
      isTimeout(error) ? restart() : Promise.reject(error),
    );
    if (workflowInfo().continueAsNewSuggested) {
      await restart();
    }
    workIsWaiting ||= moreIsReady;
    await condition(() => workIsWaiting, IDLE_TIME);
  }
};
