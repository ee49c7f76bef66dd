import {
  continueAsNew,
  ParentClosePolicy,
  proxyActivities,
  startChild,
  WorkflowIdReusePolicy,
} from "@temporalio/workflow";
import { WorkflowExecutionAlreadyStartedError } from "@temporalio/common";
import type { PlantingActivities } from "../activities/createPlantingActivities.ts";
import { inDeployment } from "./inDeployment.ts";
import { plantingOrder } from "./plantingOrder.ts";
import { plantingOrderWorkflowId } from "./workflowIds.ts";

export const plantingOrderCreationId = (deployment: string): string =>
  inDeployment(deployment, "planting-order-creation");

const { createPlantingOrders, listOrdersToStart, markOrdersStarted } =
  proxyActivities<PlantingActivities>({
    // Half an hour, and what remains of the turns of all accounts.
    startToCloseTimeout: "1 hour",
    heartbeatTimeout: "30 seconds",
    retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "1 minute" },
  });

/** Keeps the history small. */
const PAGES_PER_RUN = 20;

const startOrder = async (deployment: string, orderId: number): Promise<void> => {
  try {
    await startChild(plantingOrder, {
      workflowId: plantingOrderWorkflowId(deployment, orderId),
      args: [orderId],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      // Lets a terminated workflow start again; a second start is still rejected while one runs.
      workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    });
  } catch (error) {
    // It is running: its polls fail or are far apart, or an earlier run ended before it recorded the start.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
      throw error;
    }
  }
};

/**
 * Creates planting orders of registered trees, and starts a workflow for each new order and each order whose workflow is
 * lost. They are many on a day of many accounts, and when Temporal's database is lost.
 * @param pagesPerRun the pages of orders after which it continues as new
 */
export const plantingOrderCreation = async (
  deployment: string,
  pagesPerRun = PAGES_PER_RUN,
): Promise<void> => {
  await createPlantingOrders();
  for (let page = 0; page < pagesPerRun; page += 1) {
    const orderIds = await listOrdersToStart();
    if (orderIds.length === 0) {
      return;
    }
    await Promise.all(orderIds.map((orderId) => startOrder(deployment, orderId)));
    await markOrdersStarted(orderIds);
  }
  await continueAsNew<typeof plantingOrderCreation>(deployment, pagesPerRun);
};
