import {
  ParentClosePolicy,
  proxyActivities,
  startChild,
  WorkflowIdReusePolicy,
} from "@temporalio/workflow";
import { WorkflowExecutionAlreadyStartedError } from "@temporalio/common";
import type { Activities } from "../activities/createActivities.ts";
import { plantingOrder, plantingOrderWorkflowId } from "./plantingOrder.ts";

export const PLANTING_GATHERING_ID = "planting-gathering";

const { gatherPlantingOrders, listUndispatchedOrders, markOrdersDispatched } =
  proxyActivities<Activities>({
    startToCloseTimeout: "10 minutes",
    heartbeatTimeout: "30 seconds",
    retry: { initialInterval: "1 second", backoffCoefficient: 2, maximumInterval: "1 minute" },
  });

/** History stays small; the next gathering starts what is left. */
const PAGES = 20;

const startOrder = async (orderId: number): Promise<void> => {
  try {
    await startChild(plantingOrder, {
      workflowId: plantingOrderWorkflowId(orderId),
      args: [orderId],
      parentClosePolicy: ParentClosePolicy.ABANDON,
      // One that was terminated is started again; while one runs, this refuses a second.
      workflowIdReusePolicy: WorkflowIdReusePolicy.ALLOW_DUPLICATE,
    });
  } catch (error) {
    // It runs: its looks fail or are far apart, or the gathering that started it ended before it could say so.
    if (!(error instanceof WorkflowExecutionAlreadyStartedError)) {
      throw error;
    }
  }
};

/** Gathers registered trees into planting orders and starts a workflow for each, and for each that has lost its own. */
export const plantingGathering = async (): Promise<void> => {
  await gatherPlantingOrders();
  for (let page = 0; page < PAGES; page += 1) {
    const orderIds = await listUndispatchedOrders();
    if (orderIds.length === 0) {
      return;
    }
    await Promise.all(orderIds.map(startOrder));
    await markOrdersDispatched(orderIds);
  }
};
