import {
  continueAsNew,
  ParentClosePolicy,
  proxyActivities,
  startChild,
  WorkflowIdReusePolicy,
} from "@temporalio/workflow";
import { WorkflowExecutionAlreadyStartedError } from "@temporalio/common";
import type { PlantingActivities } from "../activities/createPlantingActivities.ts";
import { plantingOrderWorkflowId } from "../runtime/temporalNames.rules.ts";
import { plantingOrder } from "./plantingOrder.ts";

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
 * Starts the workflows of the orders that have none.
 * @returns whether no more than these pages of orders were waiting
 */
const startOrders = async (deployment: string, pages: number): Promise<boolean> => {
  for (let page = 0; page < pages; page += 1) {
    const orderIds = await listOrdersToStart();
    if (orderIds.length === 0) {
      return true;
    }
    await Promise.all(orderIds.map((orderId) => startOrder(deployment, orderId)));
    await markOrdersStarted(orderIds);
  }
  return false;
};

/**
 * Creates planting orders of registered trees, and starts a workflow for each new order and each order whose workflow is
 * lost. They are many on a day of many accounts, and when Temporal's database is lost. Existing orders are started first,
 * so that they do not wait for a creation that takes as long as a run may.
 * @param pagesPerRun the pages of orders, before and after the creation, after which it continues as new
 */
export const plantingOrderCreation = async (
  deployment: string,
  pagesPerRun = PAGES_PER_RUN,
): Promise<void> => {
  if (await startOrders(deployment, pagesPerRun)) {
    await createPlantingOrders();
    if (await startOrders(deployment, pagesPerRun)) {
      return;
    }
  }
  await continueAsNew<typeof plantingOrderCreation>(deployment, pagesPerRun);
};
