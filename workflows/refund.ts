import { defineSignal, proxyActivities, setHandler } from "@temporalio/workflow";
import type { Activities } from "../activities/createActivities.ts";

/** Tells the workflow of a further refund of its registration. */
export const refundedSignal = defineSignal("refunded");

const { confirmRefund } = proxyActivities<Activities>({
  startToCloseTimeout: "20 seconds",
  // The activity asks and fails until the answer is yes: attempts leave no history, however long the processor is down.
  retry: { initialInterval: "1 second", backoffCoefficient: 1.5, maximumInterval: "1 minute" },
});

/** Sees the refunds of a registration through: it ends when all that they take back is settled with the processor. */
export const refund = async (registrationId: string): Promise<void> => {
  let requested = true;
  setHandler(refundedSignal, () => {
    requested = true;
  });
  while (requested) {
    requested = false;
    await confirmRefund(registrationId);
  }
};
