import { proxyActivities } from "@temporalio/workflow";
import type { PlantingActivities } from "../activities/createPlantingActivities.ts";

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
