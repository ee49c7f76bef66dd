import { continueAsNew, proxyActivities, sleep, workflowInfo } from "@temporalio/workflow";
import type { PlantingActivities } from "../activities/createPlantingActivities.ts";

const { pollPlantingOrder } = proxyActivities<PlantingActivities>({
  startToCloseTimeout: "1 minute",
  // A partner may be down for days; attempts add nothing to the history.
  retry: { initialInterval: "2 seconds", backoffCoefficient: 2, maximumInterval: "10 minutes" },
});

/** Polls an order until nothing more is expected, usually for months. The first poll places it with its partner. */
export const plantingOrder = async (orderId: number): Promise<void> => {
  for (;;) {
    const { isFinished, nextPollMs } = await pollPlantingOrder(orderId);
    if (isFinished) {
      return;
    }
    if (workflowInfo().continueAsNewSuggested) {
      await continueAsNew<typeof plantingOrder>(orderId);
    }
    await sleep(nextPollMs);
  }
};

const { createPlantingOrders } = proxyActivities<PlantingActivities>({
  // The next attempt continues.
  startToCloseTimeout: "1 hour",
  heartbeatTimeout: "30 seconds",
  retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "1 minute" },
});

/**
 * Creates planting orders of registered trees, and starts a workflow for each new order and each order whose workflow is
 * lost. They are many on a day of many accounts, and when Temporal's database is lost.
 */
export const plantingOrderCreation = (): Promise<void> => createPlantingOrders();
