import type { Client } from "@temporalio/client";
import { backgroundQueue, plantingOrderWorkflowId } from "../runtime/temporalNames.rules.ts";
import { plantingOrder } from "../workflows/plantingOrder.ts";
import { callTemporal } from "./repeatedCalls.ts";

/** Starts the workflow of an order, unless it runs. One that was terminated starts again. */
export const startPlantingOrder = async (
  temporal: Client,
  deployment: string,
  orderId: number,
): Promise<void> => {
  await callTemporal(temporal, () =>
    temporal.workflow.start(plantingOrder, {
      workflowId: plantingOrderWorkflowId(deployment, orderId),
      workflowIdConflictPolicy: "USE_EXISTING",
      taskQueue: backgroundQueue(deployment),
      args: [orderId],
    }),
  );
};
