import { ActivityFailure, RetryState } from "@temporalio/common";
import type { Duration } from "@temporalio/common";
import {
  continueAsNew,
  defineSignal,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
  workflowInfo,
} from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";

/** Whether an activity failed because the time for all of its attempts is over. */
const isTimeout = (error: unknown): boolean =>
  error instanceof ActivityFailure && error.retryState === RetryState.TIMEOUT;

/** Signals a further refund of the same registration. */
export const refundedSignal = defineSignal("refunded");

/** Runs within a workflow task, which saves most of what an activity costs Temporal. */
const local = proxyLocalActivities<BillingActivities>({
  startToCloseTimeout: "5 seconds",
  retry: { maximumAttempts: 1 },
});

/**
 * Completes when all refunds of a registration are settled.
 * @param maxWait how long a run waits: signals come once a second at most, and Temporal accepts ten thousand per run
 */
export const refund = async (
  registrationId: string,
  maxWait: Duration = "1 hour",
): Promise<void> => {
  const { confirmRefund } = proxyActivities<BillingActivities>({
    startToCloseTimeout: "20 seconds",
    scheduleToCloseTimeout: maxWait,
    // The activity fails until the refund is settled, which takes seconds, or as long as an outage or a hold lasts. Retries
    // add nothing to the history.
    retry: { initialInterval: "1 second", backoffCoefficient: 1.5, maximumInterval: "10 minutes" },
  });
  const restart = () => continueAsNew<typeof refund>(registrationId, maxWait);
  let isOpen = true;
  setHandler(refundedSignal, () => {
    isOpen = true;
  });
  while (isOpen) {
    if (workflowInfo().continueAsNewSuggested) {
      await restart();
    }
    isOpen = false;
    // Of many refunds at the same time, most are settled when their workflow starts.
    await local
      .confirmRefund(registrationId)
      .catch(() => confirmRefund(registrationId))
      .catch((error: unknown) => (isTimeout(error) ? restart() : Promise.reject(error)));
  }
};
