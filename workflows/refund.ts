import {
  defineSignal,
  proxyActivities,
  proxyLocalActivities,
  setHandler,
} from "@temporalio/workflow";
import type { BillingActivities } from "../activities/createBillingActivities.ts";
import { refundIdOf } from "../domain/registrations/decideRefund.ts";
import { inDeployment } from "./inDeployment.ts";

/** Signals a further refund of the same registration. */
export const refundedSignal = defineSignal("refunded");

export const refundWorkflowId = (deployment: string, registrationId: string): string =>
  inDeployment(deployment, refundIdOf(registrationId));

const { confirmRefund } = proxyActivities<BillingActivities>({
  startToCloseTimeout: "20 seconds",
  // The activity fails until the refund is settled: retries add nothing to the history, however long the processor is down.
  retry: { initialInterval: "1 second", backoffCoefficient: 1.5, maximumInterval: "1 minute" },
});

/** Runs within a workflow task, which saves most of what an activity costs Temporal. */
const local = proxyLocalActivities<BillingActivities>({
  startToCloseTimeout: "5 seconds",
  retry: { maximumAttempts: 1 },
});

/** Completes when all refunds of a registration are settled. */
export const refund = async (registrationId: string): Promise<void> => {
  let isOpen = true;
  setHandler(refundedSignal, () => {
    isOpen = true;
  });
  while (isOpen) {
    isOpen = false;
    // Of many refunds at the same time, most are settled when their workflow starts.
    await local.confirmRefund(registrationId).catch(() => confirmRefund(registrationId));
  }
};
